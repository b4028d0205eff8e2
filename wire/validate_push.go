package wire

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// validatePush judges the options of push, each by itself: those that count for nothing without push_url may stand without it.
func (o *QueueOptions) validatePush() *Fault {
	if o.PushURL != "" {
		if f := CheckPushURL("push_url", o.PushURL); f != nil {
			return f
		}
	}
	if o.PushConcurrency < 0 || o.PushConcurrency > MaxPushConcurrency {
		return Invalid("push_concurrency", "%d; 1 to %d are allowed, or 0 for the default", o.PushConcurrency, MaxPushConcurrency)
	}
	return first(checkMillis("push_timeout_ms", o.PushTimeoutMillis, MinPushTimeoutMillis, MaxPushTimeoutMillis), o.pushSecrets(), o.pushPermanent(), o.pushHeaders())
}

// CheckPushURL judges a URL that messages are pushed to.
func CheckPushURL(field, text string) *Fault {
	const right = "such as https://example.org/in would be right"
	if len(text) > MaxPushURLBytes {
		return Invalid(field, "%d bytes; at most %d are allowed", len(text), MaxPushURLBytes)
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return Invalid(field, "%.80q holds %q; printable ASCII, all else percent-encoded, %s", text, c, right)
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return Invalid(field, "%.80q is no URL; one %s", text, right)
	case !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://"):
		return Invalid(field, "%.80q; http:// or https:// and a host, %s", text, right)
	case u.Hostname() == "":
		return Invalid(field, "%.80q has no host; one %s", text, right)
	case u.User != nil:
		return Invalid(field, "it holds a user or password; push_secrets, by which what is sent is signed, would be right")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return Invalid(field, "%.80q has a fragment, which is never sent; none would be right", text)
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return Invalid(field, "%.80q has port %q; 1 to 65535 are allowed", text, port)
		}
	}
	return nil
}

func (o *QueueOptions) pushSecrets() *Fault {
	const field = "push_secrets"
	if n := len(o.PushSecrets); n > MaxPushSecrets {
		return Invalid(field, "%d of them; at most %d are allowed", n, MaxPushSecrets)
	}
	for i, name := range o.PushSecrets {
		switch {
		case strings.HasPrefix(name, PushSecretPrefix): // which is not to be told again
			return Invalid(field, "entry %d begins with %s, as secrets themselves do; the name that one has in the nodes' configuration would be right", i, PushSecretPrefix)
		case !PushSecretName(name):
			return Invalid(field, "%d bytes, %.80q; the name of a secret in the nodes' configuration, letters, digits and ._:- of at most %d bytes, would be right",
				len(name), name, MaxPushSecretBytes)
		case slices.Contains(o.PushSecrets[:i], name):
			return Invalid(field, "%.80q is there twice; once would be right", name)
		}
	}
	return nil
}

// PushSecretPrefix is what secrets begin with, and their names do not.
const PushSecretPrefix = "whsec_"

// PushSecretName says whether text can be the name of a secret.
func PushSecretName(text string) bool {
	return len(text) <= MaxPushSecretBytes && CheckQueue("", text) == nil && !strings.HasPrefix(text, PushSecretPrefix)
}

func (o *QueueOptions) pushPermanent() *Fault {
	const field = "push_permanent"
	if n := len(o.PushPermanent); n > MaxPushPermanent {
		return Invalid(field, "%d of them; at most %d are allowed", n, MaxPushPermanent)
	}
	for i, status := range o.PushPermanent {
		switch {
		case status < 400 || status > 499 || status == 429:
			return Invalid(field, "%d; statuses from 400 to 499 are allowed, but not 429, which asks to come again", status)
		case slices.Contains(o.PushPermanent[:i], status):
			return Invalid(field, "%d is there twice; once would be right", status)
		}
	}
	return nil
}

func (o *QueueOptions) pushHeaders() *Fault {
	const field = "push_headers"
	if n := len(o.PushHeaders); n > MaxPushHeaders {
		return Invalid(field, "%d of them; at most %d are allowed", n, MaxPushHeaders)
	}
	seen := make([]string, 0, len(o.PushHeaders))
	for _, name := range o.PushHeaders {
		lower := strings.ToLower(name)
		switch {
		case !headerName(lower):
			return Invalid(field, "%d bytes, %.80q; 1 to %d of letters, digits, - and _ would be right", len(name), name, MaxPushHeaderBytes)
		case ownHeader(lower):
			return Invalid(field, "%.80q is set by push itself, or says how a request is sent; another would be right", name)
		case slices.Contains(seen, lower):
			return Invalid(field, "%.80q is there twice; once would be right", name)
		}
		seen = append(seen, lower)
	}
	return nil
}

func headerName(lower string) bool {
	return lower != "" && len(lower) <= MaxPushHeaderBytes &&
		!strings.ContainsFunc(lower, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
		})
}

// ownHeader says whether a header is one that no message may bring along.
func ownHeader(lower string) bool {
	for _, own := range [...]string{"webhook-", "quorate-", "proxy-", "sec-"} {
		if strings.HasPrefix(lower, own) {
			return true
		}
	}
	switch lower {
	case "connection", "content-encoding", "content-length", "content-type", "expect", "host", "http2-settings", "keep-alive", "te", "trailer",
		"transfer-encoding", "upgrade", "user-agent":
		return true
	}
	return false
}
