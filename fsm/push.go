package fsm

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Of push delivery the state holds the options alone: whoever leads reads them and leases as any worker does.

// Limits of the push options. They are part of the log format.
const (
	MaxPushURL         = 2048 // bytes
	MaxPushConcurrency = 256
	MinPushTimeout     = 100     // ms
	MaxPushTimeout     = 600_000 // ms
	MaxPushSecrets     = 4
	MaxPushSecretName  = 64 // bytes
	MaxPushPermanent   = 32
	MaxPushHeaders     = 16
	MaxPushHeaderName  = 64 // bytes

	formatPush = 256 // elements of a list, whatever the limits are
)

// ValidPushURL says whether a URL is one as far as the state judges it: of http or https, in printable ASCII. The rest is for the door,
// whose parser may change with the build.
func ValidPushURL(url string) bool {
	host := strings.TrimPrefix(strings.TrimPrefix(url, "https://"), "http://")
	if host == url || host == "" || len(url) > MaxPushURL {
		return false
	}
	for _, c := range []byte(url) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// ValidPushSecret says whether text is the name of a secret: of the characters of queue names, at most 64 bytes.
func ValidPushSecret(name string) bool {
	return len(name) <= MaxPushSecretName && ValidQueueName([]byte(name))
}

// ValidPushStatus says whether an answer of a status can be permanent: 4xx, but for 429.
func ValidPushStatus(status int64) bool { return status >= 400 && status <= 499 && status != 429 }

// ValidPushHeader says whether text is the name of a header, in lower case, that a message may bring along: none of those that say how
// the request is sent or that push sets itself.
func ValidPushHeader(name string) bool {
	if name == "" || len(name) > MaxPushHeaderName {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	for _, own := range [...]string{"webhook-", "quorate-", "proxy-", "sec-"} {
		if strings.HasPrefix(name, own) {
			return false
		}
	}
	return !slices.Contains(pushOwnHeaders, name)
}

var pushOwnHeaders = []string{
	"connection", "content-encoding", "content-length", "content-type", "expect", "host", "http2-settings", "keep-alive", "te", "trailer",
	"transfer-encoding", "upgrade", "user-agent",
}

// validatePush judges the push options.
func (o *QueueOptions) validatePush() (Field, error) {
	bad := func(f Field, format string, args ...any) (Field, error) {
		return f, fmt.Errorf("%w: "+format, append([]any{errOptions}, args...)...)
	}
	switch {
	case o.PushURL != "" && !ValidPushURL(o.PushURL):
		return bad(FieldPushURL, "push_url %.80q of %d bytes, want http:// or https:// and at most %d of printable ASCII", o.PushURL, len(o.PushURL), MaxPushURL)
	case o.PushConcurrency < 0 || o.PushConcurrency > MaxPushConcurrency:
		return bad(FieldPushConcurrency, "push_concurrency %d, want 1 to %d", o.PushConcurrency, MaxPushConcurrency)
	case o.PushTimeoutMillis != 0 && (o.PushTimeoutMillis < MinPushTimeout || o.PushTimeoutMillis > MaxPushTimeout):
		return bad(FieldPushTimeout, "push_timeout_ms %d, want %d to %d", o.PushTimeoutMillis, MinPushTimeout, MaxPushTimeout)
	case len(o.PushSecrets) > MaxPushSecrets:
		return bad(FieldPushSecrets, "%d push_secrets, want at most %d", len(o.PushSecrets), MaxPushSecrets)
	case len(o.PushPermanent) > MaxPushPermanent:
		return bad(FieldPushPermanent, "%d push_permanent, want at most %d", len(o.PushPermanent), MaxPushPermanent)
	case len(o.PushHeaders) > MaxPushHeaders:
		return bad(FieldPushHeaders, "%d push_headers, want at most %d", len(o.PushHeaders), MaxPushHeaders)
	}
	for i, name := range o.PushSecrets {
		if !ValidPushSecret(name) || slices.Contains(o.PushSecrets[:i], name) {
			return bad(FieldPushSecrets, "push_secrets %.80q, want names, each once", name)
		}
	}
	for i, status := range o.PushPermanent {
		if !ValidPushStatus(status) || i > 0 && o.PushPermanent[i-1] >= status {
			return bad(FieldPushPermanent, "push_permanent %d, want 400 to 499 without 429, in order", status)
		}
	}
	for i, name := range o.PushHeaders {
		if !ValidPushHeader(name) || i > 0 && o.PushHeaders[i-1] >= name {
			return bad(FieldPushHeaders, "push_headers %.80q, want names of headers in lower case and in order", name)
		}
	}
	return FieldNone, nil
}

func (o *QueueOptions) equalPush(p *QueueOptions) bool {
	return o.PushURL == p.PushURL && o.PushConcurrency == p.PushConcurrency && o.PushTimeoutMillis == p.PushTimeoutMillis &&
		slices.Equal(o.PushSecrets, p.PushSecrets) && slices.Equal(o.PushPermanent, p.PushPermanent) && slices.Equal(o.PushHeaders, p.PushHeaders)
}

// Presence bits of the push options.
const (
	pushURL = 1 << iota
	pushConcurrency
	pushTimeout
	pushSecrets
	pushPermanent
	pushHeaders
	pushEnd
)

func (o *QueueOptions) pushBits() uint64 {
	return bit(o.PushURL != "", pushURL) | bit(o.PushConcurrency != 0, pushConcurrency) | bit(o.PushTimeoutMillis != 0, pushTimeout) |
		bit(len(o.PushSecrets) > 0, pushSecrets) | bit(len(o.PushPermanent) > 0, pushPermanent) | bit(len(o.PushHeaders) > 0, pushHeaders)
}

// overPush is what the format cannot carry.
func (o *QueueOptions) overPush() (what string, n int) {
	switch {
	case len(o.PushSecrets) > formatPush:
		return "push secrets", len(o.PushSecrets)
	case len(o.PushPermanent) > formatPush:
		return "push statuses", len(o.PushPermanent)
	case len(o.PushHeaders) > formatPush:
		return "push headers", len(o.PushHeaders)
	}
	return "", 0
}

func appendPush(b []byte, o *QueueOptions) []byte {
	f := o.pushBits()
	b = appendUvarint(b, f)
	text := func(s string) { b = append(appendUvarint(b, uint64(len(s))), s...) }
	if f&pushURL != 0 {
		text(o.PushURL)
	}
	for _, v := range [...]int64{o.PushConcurrency, o.PushTimeoutMillis} {
		if v != 0 {
			b = binary.AppendVarint(b, v)
		}
	}
	if f&pushSecrets != 0 {
		b = appendCount(b, len(o.PushSecrets), formatPush)
		for _, s := range o.PushSecrets {
			text(s)
		}
	}
	if f&pushPermanent != 0 {
		b = appendCount(b, len(o.PushPermanent), formatPush)
		for _, v := range o.PushPermanent {
			b = binary.AppendVarint(b, v)
		}
	}
	if f&pushHeaders != 0 {
		b = appendCount(b, len(o.PushHeaders), formatPush)
		for _, s := range o.PushHeaders {
			text(s)
		}
	}
	return b
}

// push reads the push options; lists are made anew, as the state keeps them.
func (d *Decoder) push(o *QueueOptions, present bool) {
	o.PushURL, o.PushConcurrency, o.PushTimeoutMillis = "", 0, 0
	o.PushSecrets, o.PushPermanent, o.PushHeaders = nil, nil, nil
	if !present {
		return
	}
	f := d.bits(pushEnd)
	if f == 0 {
		d.fail("%s: push options are present but none", opNames[d.op])
		return
	}
	if f&pushURL != 0 {
		o.PushURL = string(d.presentBytes())
	}
	o.PushConcurrency = d.set(f&pushConcurrency != 0)
	o.PushTimeoutMillis = d.set(f&pushTimeout != 0)
	list := func(there bool, what string, take func()) {
		if !there {
			return
		}
		n := d.count(what, 1, formatPush)
		if n == 0 {
			d.fail("%s: %s are present but none", opNames[d.op], what)
		}
		for range n {
			take()
		}
	}
	list(f&pushSecrets != 0, "push secrets", func() { o.PushSecrets = append(o.PushSecrets, string(d.bytes())) })
	list(f&pushPermanent != 0, "push statuses", func() { o.PushPermanent = append(o.PushPermanent, d.varint()) })
	list(f&pushHeaders != 0, "push headers", func() { o.PushHeaders = append(o.PushHeaders, string(d.bytes())) })
}

// sectionPush are the push options of queues that have any, by number. Where none has, there is no such section: a snapshot is then
// what it was before there was push.
const sectionPush uint8 = 50

func (v *View) writePush(f *frameWriter, queues []int32) {
	begun := false
	for _, slot := range queues {
		m := v.metas[slot]
		o := &m.options
		if o.pushBits() == 0 {
			continue
		}
		if !begun {
			f.section(sectionPush)
			begun = true
		}
		f.record()
		f.uvarint(uint64(m.number))
		f.text(o.PushURL)
		f.varint(o.PushConcurrency)
		f.varint(o.PushTimeoutMillis)
		f.u8(uint8(len(o.PushSecrets)))
		for _, s := range o.PushSecrets {
			f.text(s)
		}
		f.u8(uint8(len(o.PushPermanent)))
		for _, status := range o.PushPermanent {
			f.varint(status)
		}
		f.u8(uint8(len(o.PushHeaders)))
		for _, s := range o.PushHeaders {
			f.text(s)
		}
	}
}

func (rs *restorer) push() {
	f := rs.f
	var last uint32
	for f.more() {
		q := rs.queue()
		var o QueueOptions
		o.PushURL, o.PushConcurrency, o.PushTimeoutMillis = f.str(MaxPushURL), f.varint(), f.varint()
		for n := f.u8(); n > 0 && f.err() == nil; n-- {
			o.PushSecrets = append(o.PushSecrets, f.str(MaxPushSecretName))
		}
		for n := f.u8(); n > 0 && f.err() == nil; n-- {
			o.PushPermanent = append(o.PushPermanent, f.varint())
		}
		for n := f.u8(); n > 0 && f.err() == nil; n-- {
			o.PushHeaders = append(o.PushHeaders, f.str(MaxPushHeaderName))
		}
		if f.err() != nil {
			return
		}
		_, err := o.validatePush()
		switch {
		case q.meta.number <= last:
			f.fail("push options of queue %d after %d", q.meta.number, last)
			return
		case err != nil:
			f.fail("queue %q: %v", q.meta.name, err)
			return
		case o.pushBits() == 0:
			f.fail("queue %q has push options that are none", q.meta.name)
			return
		}
		last = q.meta.number
		to := &q.meta.options
		to.PushURL, to.PushConcurrency, to.PushTimeoutMillis = o.PushURL, o.PushConcurrency, o.PushTimeoutMillis
		to.PushSecrets, to.PushPermanent, to.PushHeaders = o.PushSecrets, o.PushPermanent, o.PushHeaders
	}
	if f.err() == nil && last == 0 {
		f.fail("push options of no queue")
	}
}

// EachPush calls f with name and options of the queues that have a push URL, in the order of names, until it returns false or most
// queues, pushing or not, have been looked at. next is the cursor for more, "" at the end. The lists belong to the state.
func (s *State) EachPush(after string, most int, f func(name string, o *QueueOptions) bool) (next string) {
	s.Queues(after, func(n uint32, name string) bool {
		if most--; most < 0 {
			next = after
			return false
		}
		after = name
		q := s.byNumber(n)
		return q.meta.options.PushURL == "" || f(name, &q.meta.options)
	})
	return next
}
