package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/wire"
)

var (
	// ErrUnavailable says that no server that leads could be reached before the call had to end. If the call had been sent
	// before, the error is also an *Error with Unknown set.
	ErrUnavailable = errors.New("client: no leading server reachable")
	// ErrClosed says that the client was closed. Calls that were under way then get an *Error with Unknown set that wraps it.
	ErrClosed = errors.New("client: closed")
)

// Sentinels for errors.Is, one for each code that a server answers: errors.Is(err, ErrNotFound).
var (
	ErrInvalidArgument    = &Error{Code: wire.CodeInvalidArgument}
	ErrUnauthenticated    = &Error{Code: wire.CodeUnauthenticated}
	ErrPermissionDenied   = &Error{Code: wire.CodePermissionDenied}
	ErrNotFound           = &Error{Code: wire.CodeNotFound}
	ErrAlreadyExists      = &Error{Code: wire.CodeAlreadyExists}
	ErrLeaseLost          = &Error{Code: wire.CodeLeaseLost}
	ErrCancelled          = &Error{Code: wire.CodeCancelled}
	ErrTooLarge           = &Error{Code: wire.CodeTooLarge}
	ErrQueueFull          = &Error{Code: wire.CodeQueueFull}
	ErrRateLimited        = &Error{Code: wire.CodeRateLimited}
	ErrNotLeader          = &Error{Code: wire.CodeNotLeader}
	ErrNoLeader           = &Error{Code: wire.CodeNoLeader}
	ErrOverloaded         = &Error{Code: wire.CodeOverloaded}
	ErrFailedPrecondition = &Error{Code: wire.CodeFailedPrecondition}
	ErrSessionExpired     = &Error{Code: wire.CodeSessionExpired}
	ErrNoSpace            = &Error{Code: wire.CodeNoSpace}
	ErrTimeout            = &Error{Code: wire.CodeTimeout}
	ErrUnsupportedVersion = &Error{Code: wire.CodeUnsupportedVersion}
	ErrInternal           = &Error{Code: wire.CodeInternal}
)

// Error is how a call failed. Unknown is the part that matters most: false means that nothing happened and never will,
// true that the call may have been applied, or may yet be.
type Error struct {
	Code       wire.Code
	Message    string        // what was wrong and what would be right
	Unknown    bool          // the outcome: false refused, true unknown
	Retry      bool          // the same call may succeed later
	RetryAfter time.Duration // 0: the server did not say
	Field      string        // invalid_argument, too_large: which field
	ID         string        // already_exists: the holder's message id
	Result     *Result       // already_exists: the recorded result
	Leader     string        // not_leader: the leader's client address, where known

	cause error
}

// Error is "code: message", with what caused it.
func (e *Error) Error() string {
	s := string(e.Code)
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Unknown {
		s += " (outcome unknown)"
	}
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap is what caused it: a context's error, ErrClosed or ErrUnavailable.
func (e *Error) Unwrap() error { return e.cause }

// Is makes the sentinels match by code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == "" && t.cause == nil
}

// Unknown reports whether the call that returned err may have been applied, or may yet be.
func Unknown(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Unknown
}

// fieldThen is the field of a refusal that is about what an ack enqueues: nothing was acked, and the lease stays.
const fieldThen = "then"

// endsLease says whether an error to the token of a lease means that the lease is live no longer, or will be answered no otherwise. It goes by the code
// alone: of an ack that was sent before without an answer nobody knows what became, but the lease is over in any case.
func endsLease(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Code == wire.CodeLeaseLost || e.Code == wire.CodeCancelled || e.Code == wire.CodeNotFound && e.Field != fieldThen
}

func errorOf(f *wire.Fault) *Error {
	return &Error{
		Code: f.Code, Message: f.Message, Unknown: f.Unknown, Retry: f.Retry,
		RetryAfter: time.Duration(f.RetryAfterMillis) * time.Millisecond,
		Field:      f.Field, ID: f.ID, Result: resultOf(f.Result), Leader: f.Leader,
	}
}

func invalid(field, format string, args ...any) *Error {
	return errorOf(wire.Invalid(field, format, args...))
}

// ended is the error of a call that had to end (cause: a context's error, errCallTimeout, ErrClosed) before its answer.
// sent tells whether the server may have applied it; last is the call's latest refusal or unknown answer, lost why there
// is no connection; both may be nil.
func ended(cause error, sent, connected bool, last, lost error) error {
	if sent {
		if !connected && !errors.Is(cause, ErrClosed) {
			cause = fmt.Errorf("%w: %w", ErrUnavailable, cause)
		}
		return &Error{Code: wire.CodeTimeout, Message: "no answer in time", Unknown: true, Retry: true, cause: cause}
	}
	var refusal *Error
	if errors.As(last, &refusal) && !refusal.Unknown && refusal.Code != wire.CodeNotLeader && refusal.Code != wire.CodeNoLeader {
		return &refusedUntil{cause: cause, refusal: refusal}
	}
	switch {
	case errors.Is(cause, ErrClosed):
		return ErrClosed
	case !connected && lost != nil:
		return fmt.Errorf("%w: %w (last: %v)", ErrUnavailable, cause, lost) //nolint:errorlint // a dial's time-out is not the call's
	case !connected:
		return fmt.Errorf("%w: %w", ErrUnavailable, cause)
	}
	return &Error{Code: wire.CodeTimeout, Message: "ended before it was sent", Retry: true, cause: cause}
}

// refusedUntil is a refusal that was retried until the call had to end: it is the refusal, and it is the context's error.
type refusedUntil struct {
	cause   error
	refusal *Error
}

func (e *refusedUntil) Error() string {
	return e.refusal.Error() + " (tried until " + e.cause.Error() + ")"
}
func (e *refusedUntil) Unwrap() []error { return []error{e.refusal, e.cause} }

// errCallTimeout ends calls whose context has no deadline; it is a deadline like any other.
var errCallTimeout error = callTimeout{}

type callTimeout struct{}

func (callTimeout) Error() string { return "the default call timeout" }
func (callTimeout) Unwrap() error { return context.DeadlineExceeded }

// errConnLost ends calls that are about one connection.
var errConnLost = errors.New("connection lost")
