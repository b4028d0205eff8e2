package wire

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// row is what a code means for the caller.
type row struct {
	http    int
	retry   bool // may the same request succeed later
	unknown bool // it may have been applied, or may yet be
}

// The table of the codes. A code that is not in it counts as internal.
var rows = map[Code]row{
	CodeInvalidArgument:    {http: http.StatusBadRequest},
	CodeUnauthenticated:    {http: http.StatusUnauthorized},
	CodePermissionDenied:   {http: http.StatusForbidden},
	CodeNotFound:           {http: http.StatusNotFound},
	CodeAlreadyExists:      {http: http.StatusConflict},
	CodeLeaseLost:          {http: http.StatusConflict},
	CodeCancelled:          {http: http.StatusConflict},
	CodeTooLarge:           {http: http.StatusRequestEntityTooLarge},
	CodeQueueFull:          {http: http.StatusServiceUnavailable, retry: true},
	CodeRateLimited:        {http: http.StatusTooManyRequests, retry: true},
	CodeNotLeader:          {http: http.StatusMisdirectedRequest, retry: true},
	CodeNoLeader:           {http: http.StatusServiceUnavailable, retry: true},
	CodeOverloaded:         {http: http.StatusServiceUnavailable, retry: true},
	CodeFailedPrecondition: {http: http.StatusConflict},
	CodeSessionExpired:     {http: http.StatusConflict, unknown: true},
	CodeNoSpace:            {http: http.StatusInsufficientStorage, retry: true},
	CodeTimeout:            {http: http.StatusGatewayTimeout, retry: true, unknown: true},
	CodeUnsupportedVersion: {http: http.StatusUpgradeRequired},
	CodeInternal:           {http: http.StatusInternalServerError, unknown: true},
}

func (c Code) row() row {
	if r, ok := rows[c]; ok {
		return r
	}
	return rows[CodeInternal]
}

// Known reports whether c is one of the codes of this version.
func (c Code) Known() bool { _, ok := rows[c]; return ok }

// HTTP is the status that the HTTP API answers the code with.
func (c Code) HTTP() int { return c.row().http }

// Retry reports whether the same request may succeed later without a change.
func (c Code) Retry() bool { return c.row().retry }

// Unknown reports whether a request that got the code may have been applied, or may yet be. False: certainly not.
func (c Code) Unknown() bool { return c.row().unknown }

// NewFault makes the fault of a code, its flags as the code's row has them and its message cut to MaxFaultBytes.
func NewFault(c Code, format string, args ...any) *Fault {
	r := c.row()
	return &Fault{
		Code: c, Message: CutText(fmt.Sprintf(format, args...), MaxFaultBytes),
		Unknown: r.unknown, Retry: r.retry,
	}
}

// Invalid is NewFault(CodeInvalidArgument) about one field of a request.
func Invalid(field, format string, args ...any) *Fault {
	f := NewFault(CodeInvalidArgument, "%s", field+": "+fmt.Sprintf(format, args...))
	f.Field = field
	return f
}

// TooLarge is NewFault(CodeTooLarge) about one field of a request.
func TooLarge(field, format string, args ...any) *Fault {
	f := NewFault(CodeTooLarge, "%s", field+": "+fmt.Sprintf(format, args...))
	f.Field = field
	return f
}

// Error is "code: message".
func (f *Fault) Error() string { return string(f.Code) + ": " + f.Message }

// CutText cuts s to at most n bytes, at a rune's edge, with what is not UTF-8 replaced by U+FFFD first.
func CutText(s string, n int) string {
	if len(s) > n+utf8.UTFMax { // do not look at megabytes to keep a kilobyte
		s = s[:n+utf8.UTFMax]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
