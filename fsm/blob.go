package fsm

import (
	"bytes"
	"encoding/binary"
)

// A message's blob is its optional fields, in the order of the bits below, and then its body. A message that has none of
// them, which is the common one, is its body and nothing else.
//
//	task | kind | content type | key   uvarint length, bytes (1 or more)
//	timeout                            uvarint ms
//	retry                              uvarint length, policy
//	redrive                            original id 16, uvarint original T, uvarint redrives
//	headers                            uvarint length, then pairs of uvarint length and bytes
const (
	hasTask uint8 = 1 << iota
	hasKind
	hasContentType
	hasKey
	hasTimeout
	hasRetry
	hasRedrive
	hasHeaders
)

// fields are the parts of a blob; slices alias it.
type fields struct {
	task, kind, contentType, key []byte
	timeout                      int64
	retry                        []byte
	origin                       ID    // redriven: the first id of the message
	originAt                     int64 // and when it was enqueued, T
	redrives                     uint32
	headers                      []byte
	body                         []byte
}

// firstID is the id under which a redriven message was first enqueued, where that is its task id.
func (f *fields) firstID(has uint8) (ID, bool) {
	if has&hasTask == 0 || has&hasRedrive == 0 {
		return ID{}, false
	}
	id, ok := ParseIDBytes(f.task)
	return id, ok && id == f.origin
}

func uvarint(b []byte) (uint64, []byte) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil
	}
	return v, b[n:]
}

func chunk(b []byte) (part, rest []byte) {
	v, b := uvarint(b)
	if v > uint64(len(b)) {
		return nil, nil
	}
	return b[:v:v], b[v:]
}

// blobTask is the task id of a blob that has one: it comes first.
func blobTask(b []byte) []byte {
	t, _ := chunk(b)
	return t
}

// blobKey is the key of a blob that has one.
func blobKey(has uint8, b []byte) []byte {
	for _, before := range [...]uint8{hasTask, hasKind, hasContentType} {
		if has&before != 0 {
			_, b = chunk(b)
		}
	}
	key, _ := chunk(b)
	return key
}

// blobKind is the kind of a blob that has one.
func blobKind(has uint8, b []byte) []byte {
	if has&hasTask != 0 {
		_, b = chunk(b)
	}
	kind, _ := chunk(b)
	return kind
}

// parse takes a blob apart. A damaged blob gives empty parts: valid tells.
func (f *fields) parse(has uint8, b []byte) {
	*f = fields{}
	if has == 0 {
		f.body = b
		return
	}
	if has&hasTask != 0 {
		f.task, b = chunk(b)
	}
	if has&hasKind != 0 {
		f.kind, b = chunk(b)
	}
	if has&hasContentType != 0 {
		f.contentType, b = chunk(b)
	}
	if has&hasKey != 0 {
		f.key, b = chunk(b)
	}
	if has&hasTimeout != 0 {
		var v uint64
		v, b = uvarint(b)
		f.timeout = int64(v)
	}
	if has&hasRetry != 0 {
		f.retry, b = chunk(b)
	}
	if has&hasRedrive != 0 {
		if len(b) >= 16 {
			f.origin = ID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
			b = b[16:]
		}
		var v uint64
		v, b = uvarint(b)
		f.originAt = int64(v)
		v, b = uvarint(b)
		f.redrives = uint32(v)
	}
	if has&hasHeaders != 0 {
		f.headers, b = chunk(b)
	}
	f.body = b
}

func appendChunk(b, part []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// appendMeta encodes everything but the body, and says which fields there are.
func (f *fields) appendMeta(b []byte) (meta []byte, has uint8) {
	for i, part := range [...][]byte{f.task, f.kind, f.contentType, f.key} {
		if len(part) > 0 {
			has |= 1 << i
			b = appendChunk(b, part)
		}
	}
	if f.timeout > 0 {
		has |= hasTimeout
		b = binary.AppendUvarint(b, uint64(f.timeout))
	}
	if len(f.retry) > 0 {
		has |= hasRetry
		b = appendChunk(b, f.retry)
	}
	if !f.origin.IsZero() {
		has |= hasRedrive
		b = binary.BigEndian.AppendUint64(b, f.origin.Hi)
		b = binary.BigEndian.AppendUint64(b, f.origin.Lo)
		b = binary.AppendUvarint(b, uint64(f.originAt))
		b = binary.AppendUvarint(b, uint64(f.redrives))
	}
	if len(f.headers) > 0 {
		has |= hasHeaders
		b = appendChunk(b, f.headers)
	}
	return b, has
}

// appendHeaders encodes header pairs for fields.headers.
func appendHeaders(b []byte, hs []Header) []byte {
	for i := range hs {
		b = appendChunk(b, hs[i].Name)
		b = appendChunk(b, hs[i].Value)
	}
	return b
}

// decodeHeaders appends the pairs to hs; they alias b.
func decodeHeaders(b []byte, hs []Header) []Header {
	for len(b) > 0 {
		var h Header
		h.Name, b = chunk(b)
		h.Value, b = chunk(b)
		hs = append(hs, h)
	}
	return hs
}

// appendPolicy encodes a retry policy.
func appendPolicy(b []byte, p *RetryPolicy) []byte {
	b = append(b, byte(p.Kind))
	b = binary.AppendUvarint(b, uint64(len(p.Steps)))
	for _, v := range p.Steps {
		b = binary.AppendUvarint(b, uint64(v))
	}
	for _, v := range [...]int64{p.InitialMillis, p.MultiplierMilli, p.MaxMillis, int64(p.MaxAttempts), p.JitterMillis} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return b
}

// decodePolicy is the way back; p's steps are reused.
func decodePolicy(b []byte, p *RetryPolicy) {
	steps := p.Steps[:0]
	*p = RetryPolicy{}
	if len(b) == 0 {
		return
	}
	p.Kind = RetryKind(b[0])
	n, b := uvarint(b[1:])
	for ; n > 0 && len(b) > 0; n-- {
		var v uint64
		v, b = uvarint(b)
		steps = append(steps, int64(v))
	}
	if len(steps) > 0 {
		p.Steps = steps
	}
	var v [5]uint64
	for i := range v {
		v[i], b = uvarint(b)
	}
	p.InitialMillis, p.MultiplierMilli, p.MaxMillis = int64(v[0]), int64(v[1]), int64(v[2])
	p.MaxAttempts, p.JitterMillis = int32(v[3]), int64(v[4])
}

// validBlob checks a blob from a snapshot: every field in its range and in the one encoding it can have.
func validBlob(has uint8, b []byte) bool {
	var f fields
	f.parse(has, b)
	m := Message{TaskID: f.task, Kind: f.kind, ContentType: f.contentType, Key: f.key, Body: f.body, TimeoutMillis: f.timeout}
	var again []byte
	if len(f.headers) > 0 {
		m.Headers = decodeHeaders(f.headers, nil)
		if !bytes.Equal(appendHeaders(nil, m.Headers), f.headers) {
			return false
		}
	}
	if len(f.retry) > 0 {
		decodePolicy(f.retry, &m.Retry)
		n := m.Retry
		n.Normalize()
		if m.Retry.Kind == RetryDefault || !m.Retry.Equal(&n) || !bytes.Equal(appendPolicy(nil, &m.Retry), f.retry) {
			return false
		}
	}
	if f.originAt < 0 || f.originAt > MaxTime {
		return false
	}
	if _, _, ok := ValidateMessage(&m, 0); !ok {
		return false
	}
	again, h := f.appendMeta(nil)
	return h == has && len(again)+len(f.body) == len(b) && bytes.HasPrefix(b, again)
}
