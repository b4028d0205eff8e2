package group

import (
	"time"

	"github.com/quorate/quorate/fsm/mutant"
)

// Codes of an Error: the subset of the client protocol's codes that a group answers by itself. Refusals by the state
// machine travel as outcomes.
const (
	CodeInvalidArgument    = "invalid_argument"
	CodeNotFound           = "not_found"
	CodeNotLeader          = "not_leader"
	CodeNoLeader           = "no_leader"
	CodeOverloaded         = "overloaded"
	CodeFailedPrecondition = "failed_precondition"
	CodeSessionExpired     = "session_expired"
	CodeTooLarge           = "too_large"
	CodeNoSpace            = "no_space"
	CodeTimeout            = "timeout"
	CodeInternal           = "internal"
)

// Error is why a call was not carried out, or why that is not known. Errors are shared between calls: read only.
type Error struct {
	Code       string
	Message    string
	Unknown    bool          // it may have happened, now or later; otherwise it has not and never will
	RetryAfter time.Duration // a hint, 0: none
	Leader     string        // not_leader: the leader's client address
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Retry hints: an election takes about half a second, an overload is over when the queue has moved on.
const (
	retryLeader   = 100 * time.Millisecond
	retryOverload = 50 * time.Millisecond
)

var (
	errStopping = &Error{Code: CodeNoLeader, Message: "this node is stopping", RetryAfter: retryLeader}
	errStarting = &Error{Code: CodeNoLeader, Message: "this node has been elected and is not ready yet",
		RetryAfter: retryLeader}
	errElection = &Error{Code: CodeNoLeader, Message: "the group has no leader at present", RetryAfter: retryLeader}
	errTransfer = &Error{Code: CodeNoLeader, Message: "leadership is moving to another node", RetryAfter: retryLeader}

	errQueueFull = &Error{Code: CodeOverloaded, Message: "too many requests wait to be proposed", RetryAfter: retryOverload}
	errTooLate   = &Error{Code: CodeOverloaded, Message: "the deadline passed before the request was proposed",
		RetryAfter: retryOverload}
	errPulls    = &Error{Code: CodeOverloaded, Message: "too many leases wait for messages", RetryAfter: retryOverload}
	errReaders  = &Error{Code: CodeOverloaded, Message: "too many reads wait for the leader check", RetryAfter: retryOverload}
	errWaiters  = &Error{Code: CodeOverloaded, Message: "too many calls wait for results", RetryAfter: retryOverload}
	errSessions = &Error{Code: CodeOverloaded, Message: "too many sessions are connected", RetryAfter: retryOverload}
	errSubs     = &Error{Code: CodeOverloaded, Message: "too many subscriptions", RetryAfter: retryOverload}

	errDeadline = &Error{Code: CodeTimeout, Message: "the deadline passed after the request was proposed", Unknown: true}
	errLost     = &Error{Code: CodeTimeout, Message: "leadership was lost after the request was proposed", Unknown: !mutant.RefusedAfterPropose}
	errStore    = &Error{Code: CodeTimeout, Message: "the log failed after the request was proposed", Unknown: true}

	errEncoding   = &Error{Code: CodeInternal, Message: "the operation was not encoded as the log wants it; it was not proposed"}
	errDetached   = &Error{Code: CodeFailedPrecondition, Message: "the connection of this session is gone"}
	errReplaced   = &Error{Code: CodeFailedPrecondition, Message: "the session is attached to another connection"}
	errSession    = &Error{Code: CodeSessionExpired, Message: "the session is unknown or has ended"}
	errReadLate   = &Error{Code: CodeTimeout, Message: "the deadline passed before leadership was confirmed"}
	errResultLate = &Error{Code: CodeTimeout, Message: "no result was recorded within the time given"}
	errWaitLate   = &Error{Code: CodeTimeout, Message: "the task has not ended within the time given"}
	errMourners   = &Error{Code: CodeOverloaded, Message: "too many calls wait for dead letters", RetryAfter: retryOverload}
	errDeathLate  = &Error{Code: CodeTimeout, Message: "nothing has died within the time given"}
	errWatchers   = &Error{Code: CodeOverloaded, Message: "too many calls wait for the KV to change", RetryAfter: retryOverload}
	errAnswered   = &Error{Code: CodeOverloaded, Message: "another request with this idempotency key has been answered meanwhile: send this one again to get its answer", RetryAfter: retryOverload}
	errWatchLate  = &Error{Code: CodeTimeout, Message: "the KV has not changed within the time given"}
)
