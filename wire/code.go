package wire

// Code is an error's name, the same on every surface.
type Code string

// The codes, with what each means for the caller (see Fault for the outcome and retry flags).
const (
	CodeInvalidArgument    Code = "invalid_argument"
	CodeUnauthenticated    Code = "unauthenticated"
	CodePermissionDenied   Code = "permission_denied"
	CodeNotFound           Code = "not_found"
	CodeAlreadyExists      Code = "already_exists"
	CodeLeaseLost          Code = "lease_lost"
	CodeCancelled          Code = "cancelled"
	CodeTooLarge           Code = "too_large"
	CodeQueueFull          Code = "queue_full"
	CodeRateLimited        Code = "rate_limited"
	CodeNotLeader          Code = "not_leader"
	CodeNoLeader           Code = "no_leader"
	CodeOverloaded         Code = "overloaded"
	CodeFailedPrecondition Code = "failed_precondition"
	CodeSessionExpired     Code = "session_expired"
	CodeNoSpace            Code = "no_space"
	CodeTimeout            Code = "timeout"
	CodeUnsupportedVersion Code = "unsupported_version"
	CodeInternal           Code = "internal"
)
