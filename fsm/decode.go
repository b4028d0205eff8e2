package fsm

import (
	"encoding/binary"
	"fmt"
)

// Decoder reads the operations of one entry after the other into structs of the caller's. It copies no bytes: slices in
// what it fills alias the entry, and what is filled again lets go of the entry before. The zero value is ready, and a
// Decoder that is reused does not allocate.
//
//	for d.Next() {
//		switch d.Op() {
//		case opEnqueue:
//			d.Enqueue(&s.enqueue)
//
// Exactly one method that reads the operation, or Skip, is called for each true of Next. The first error ends the
// entry; what was filled in last is then not to be used.
type Decoder struct {
	data []byte
	pos  int
	err  error
	op   uint8
	todo bool  // the current operation has not been read
	scan bool  // values are checked, not kept: batches go through one element
	key  opKey // of the current operation

	scratch struct { // for Skip
		message     Message
		bootstrap   Bootstrap
		open        OpenSession
		touch       TouchSession
		create      CreateQueue
		set         SetQueue
		change      ChangeQueue
		del         DeleteQueue
		purge       PurgeQueue
		enqueue     Enqueue
		lease       Lease
		ack         Ack
		nack        Nack
		extend      Extend
		release     Release
		push        PushResult
		deadRequeue DeadRequeue
		deadDelete  DeadDelete
		deadPurge   DeadPurge
		checkpoint  Checkpoint
		nothing     Nothing
		cancel      Cancel
		reschedule  Reschedule
		deadEdit    DeadEdit
		kvDelete    KVDelete
		schedule    scheduleOps
		batchCreate BatchCreate
		batchSeal   BatchSeal
	}
}

// Reset begins an entry. It checks the header; errors wrap ErrFormat.
func (d *Decoder) Reset(data []byte) error {
	d.data, d.pos, d.err, d.op, d.todo, d.scan, d.key = data, EntryHeaderSize, nil, 0, false, false, opKey{}
	switch {
	case len(data) == 0:
		d.err = fmt.Errorf("%w: entry is empty, want at least the header of %d bytes", ErrFormat, EntryHeaderSize)
	case data[0] != entryFormat:
		d.err = fmt.Errorf("%w: entry is of format %d, this build reads %d", ErrFormat, data[0], entryFormat)
	case len(data) < EntryHeaderSize:
		d.err = fmt.Errorf("%w: entry has %d bytes, want at least the header of %d", ErrFormat, len(data), EntryHeaderSize)
	}
	return d.err
}

// Now is the leader's time in the entry, Unix ms.
func (d *Decoder) Now() int64 { return int64(binary.LittleEndian.Uint64(d.data[1:])) }

// Shift is the leader's jump in the entry, ms.
func (d *Decoder) Shift() int64 { return int64(binary.LittleEndian.Uint64(d.data[9:])) }

// Err is what ended the entry early, nil at its proper end.
func (d *Decoder) Err() error { return d.err }

// Op is the number of the operation that Next has found: of one with an idempotency key, that of the operation that the key is for.
func (d *Decoder) Op() uint8 { return d.op }

// Next goes to the next operation; false at the end of the entry and after an error.
func (d *Decoder) Next() bool {
	if d.todo {
		panic(fmt.Sprintf("fsm: operation %s was not read before Next", opNames[d.op]))
	}
	if d.err != nil || d.pos >= len(d.data) {
		return false
	}
	d.op = d.data[d.pos]
	if d.op >= opEnd || opNames[d.op] == "" {
		d.fail("operation %d is unknown to this build", d.op)
		return false
	}
	d.pos++
	if d.key.given {
		d.key = opKey{}
	}
	if d.op == opIdempotent && !d.idempotent() {
		return false
	}
	d.todo = true
	return true
}

// take marks the current operation as read; it must be of the number given.
func (d *Decoder) take(op uint8) {
	if !d.todo || d.op != op {
		panic(fmt.Sprintf("fsm: reading operation %d where the entry has %d", op, d.op))
	}
	d.todo = false
}

// Check reads the whole entry and says whether every byte of it is understood. After nil, reading it again cannot fail.
func (d *Decoder) Check(data []byte) error {
	if err := d.Reset(data); err != nil {
		return err
	}
	for d.Next() {
		d.Skip()
	}
	return d.err
}

// CheckEntry is Check with a Decoder of its own.
func CheckEntry(data []byte) error {
	var d Decoder
	return d.Check(data)
}

// DecodeEntry decodes an entry into values of their own, for tools, taps and the model. Byte slices alias data. Errors
// wrap ErrFormat and name the offset.
func DecodeEntry(data []byte) (Entry, error) {
	var d Decoder
	if err := d.Reset(data); err != nil {
		return Entry{}, err
	}
	e := Entry{Now: d.Now(), Shift: d.Shift()}
	for d.Next() {
		if k := d.key; k.given {
			e.Ops = append(e.Ops, &Idempotent{IdempotencyKey: k.IdempotencyKey, Note: k.note, Op: d.value()})
			continue
		}
		e.Ops = append(e.Ops, d.value())
	}
	if d.err != nil {
		return Entry{}, d.err
	}
	return e, nil
}

// fail notes the first error and stops the reading. The offset is where the reading stands.
func (d *Decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: entry of %d bytes, offset %d: %s", ErrFormat, len(d.data), d.pos, fmt.Sprintf(format, args...))
	}
	d.pos = len(d.data)
}

func (d *Decoder) failShort(want int) {
	d.fail("%s ends early: %d bytes left, want %d", opNames[d.op], len(d.data)-d.pos, want)
}

// raw is the next n bytes; nil after an error.
func (d *Decoder) raw(n int) []byte {
	if len(d.data)-d.pos < n {
		d.failShort(n)
		return nil
	}
	b := d.data[d.pos : d.pos+n : d.pos+n]
	d.pos += n
	return b
}

func (d *Decoder) byte() uint8 {
	if d.pos >= len(d.data) {
		d.failShort(1)
		return 0
	}
	v := d.data[d.pos]
	d.pos++
	return v
}

func (d *Decoder) bool() bool {
	v := d.byte()
	if v > 1 {
		d.pos--
		d.fail("%s: boolean is %d, want 0 or 1", opNames[d.op], v)
	}
	return v == 1
}

func (d *Decoder) uvarint() uint64 {
	if d.pos < len(d.data) && d.data[d.pos] < 0x80 {
		v := d.data[d.pos]
		d.pos++
		return uint64(v)
	}
	return d.longUvarint()
}

func (d *Decoder) longUvarint() uint64 {
	if b := d.data[d.pos:]; len(b) >= 2 && b[1] < 0x80 && b[1] > 0 { // lengths of bodies
		d.pos += 2
		return uint64(b[0]&0x7F) | uint64(b[1])<<7
	}
	v, n := binary.Uvarint(d.data[d.pos:])
	switch {
	case n == 0:
		d.failShort(len(d.data) - d.pos + 1)
		return 0
	case n < 0:
		d.fail("%s: number does not fit in 64 bits", opNames[d.op])
		return 0
	case n > 1 && d.data[d.pos+n-1] == 0:
		d.fail("%s: number is not in its shortest form", opNames[d.op])
		return 0
	}
	d.pos += n
	return v
}

func (d *Decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// set is a signed number behind a presence bit: never zero.
func (d *Decoder) set(present bool) int64 {
	if present {
		return d.present()
	}
	return 0
}

func (d *Decoder) present() int64 {
	v := d.varint()
	if v == 0 {
		d.fail("%s: a field that is present is zero", opNames[d.op])
	}
	return v
}

func (d *Decoder) int32(v int64) int32 {
	if int64(int32(v)) != v {
		d.fail("%s: number %d does not fit in 32 bits", opNames[d.op], v)
		return 0
	}
	return int32(v)
}

// bytes is a length and that many bytes of the entry, nil for none.
func (d *Decoder) bytes() []byte {
	if p := d.pos + 1; p <= len(d.data) {
		if n := int(d.data[p-1]); n < 0x80 && n <= len(d.data)-p {
			if d.pos = p + n; n == 0 {
				return nil
			}
			return d.data[p : p+n : p+n]
		}
	}
	return d.longBytes()
}

func (d *Decoder) longBytes() []byte {
	n := d.uvarint()
	if n == 0 {
		return nil
	}
	if n > uint64(len(d.data)-d.pos) {
		d.fail("%s: length %d, %d bytes are left", opNames[d.op], n, len(d.data)-d.pos)
		return nil
	}
	b := d.data[d.pos : d.pos+int(n) : d.pos+int(n)]
	d.pos += int(n)
	return b
}

func (d *Decoder) setBytes(present bool) []byte {
	if present {
		return d.presentBytes()
	}
	return nil
}

func (d *Decoder) presentBytes() []byte {
	b := d.bytes()
	if len(b) == 0 {
		d.fail("%s: a field that is present is empty", opNames[d.op])
	}
	return b
}

// count is the number of elements that follow, each of at least size bytes.
func (d *Decoder) count(what string, size, limit int) int {
	n := d.uvarint()
	if n > uint64(limit) {
		d.fail("%s: %d %s, want at most %d", opNames[d.op], n, what, limit)
		return 0
	}
	if int(n)*size > len(d.data)-d.pos {
		d.fail("%s: %d %s cannot be in %d bytes", opNames[d.op], n, what, len(d.data)-d.pos)
		return 0
	}
	return int(n)
}

func (d *Decoder) bits(end uint64) uint64 {
	f := d.uvarint()
	if f >= end {
		d.fail("%s: presence bits %#x, this build knows those below %#x", opNames[d.op], f, end)
		return 0
	}
	return f
}

func (d *Decoder) id() (id ID) {
	if len(d.data)-d.pos < 16 {
		d.failShort(16)
		return ID{}
	}
	b := d.data[d.pos : d.pos+16]
	d.pos += 16
	return ID{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}
}

func (d *Decoder) token() (t Token) { return Token{Message: d.id(), Lease: d.id()} }

func (d *Decoder) request(r *Request) {
	*r = Request{}
	if d.bool() {
		r.Session, r.Number, r.Low = d.id(), d.uvarint(), d.uvarint()
		if *r == (Request{}) {
			d.fail("%s: a request that is present is zero", opNames[d.op])
		}
	}
}

func (d *Decoder) result(r *Result) { r.Output, r.ContentType = d.bytes(), d.bytes() }

func (d *Decoder) ids(dst []ID) []ID {
	n := d.count("ids", 16, formatIDs)
	dst = dst[:0]
	for range n {
		dst = append(dst, d.id())
	}
	return dst
}

func (d *Decoder) message(m *Message) {
	f := d.bits(msgEnd)
	m.TaskID = d.setBytes(f&msgTaskID != 0)
	m.Kind = d.setBytes(f&msgKind != 0)
	m.ContentType = d.setBytes(f&msgContentType != 0)
	if cap(m.Headers) > MaxHeaders { // do not keep what only a bad batch needed
		m.Headers = nil
	}
	clear(m.Headers) // what lies behind the length holds on to no entry
	m.Headers = m.Headers[:0]
	if f&msgHeaders != 0 {
		n := d.count("headers", 2, formatHeaders)
		if n == 0 {
			d.fail("%s: headers are present but none", opNames[d.op])
		}
		for range n {
			m.Headers = append(m.Headers, Header{Name: d.bytes(), Value: d.bytes()})
		}
	}
	m.Body = d.bytes()
	m.Key = d.setBytes(f&msgKey != 0)
	m.Priority = 0
	if f&msgPriority != 0 {
		if m.Priority = d.byte(); m.Priority == 0 {
			d.fail("%s: a priority that is present is zero", opNames[d.op])
		}
	}
	m.HasDedup = f&msgDedup != 0
	if m.HasDedup {
		copy(m.DedupKey[:], d.raw(16))
		copy(m.DedupContent[:], d.raw(16))
	} else {
		m.DedupKey, m.DedupContent = [16]byte{}, [16]byte{}
	}
	clear(m.Keys)
	m.Keys = m.Keys[:0]
	m.Batch = ID{}
	if f < msgDelay { // as most are
		m.DelayMillis, m.DueAt, m.TTLMillis, m.TimeoutMillis = 0, 0, 0, 0
		if m.Retry.Kind != RetryDefault || retryBits(&m.Retry) != 0 {
			m.Retry = RetryPolicy{Steps: m.Retry.Steps[:0]}
		}
		return
	}
	m.DelayMillis = d.set(f&msgDelay != 0)
	m.DueAt = d.set(f&msgDueAt != 0)
	m.TTLMillis = d.set(f&msgTTL != 0)
	m.TimeoutMillis = d.set(f&msgTimeout != 0)
	d.retry(&m.Retry, f&msgRetry != 0)
	if f&msgKeys != 0 {
		m.Keys = d.keys(m.Keys)
	}
	if f&msgBatch != 0 {
		if m.Batch = d.id(); m.Batch.IsZero() {
			d.fail("%s: a batch that is present is zero", opNames[d.op])
		}
	}
}

func (d *Decoder) retry(p *RetryPolicy, present bool) {
	*p = RetryPolicy{Steps: p.Steps[:0]}
	if !present {
		return
	}
	p.Kind = RetryKind(d.byte())
	f := uint64(d.byte())
	if f >= retryEnd {
		d.fail("%s: retry policy with presence bits %#x, this build knows those below %#x", opNames[d.op], f, uint64(retryEnd))
		return
	}
	if f == 0 && p.Kind == RetryDefault {
		d.fail("%s: a retry policy that is present is zero", opNames[d.op])
	}
	if f&retrySteps != 0 {
		n := d.count("retry steps", 1, formatSteps)
		if n == 0 {
			d.fail("%s: retry steps are present but none", opNames[d.op])
		}
		for range n {
			p.Steps = append(p.Steps, d.varint())
		}
	}
	p.InitialMillis = d.set(f&retryInitial != 0)
	p.MultiplierMilli = d.set(f&retryMultiplier != 0)
	p.MaxMillis = d.set(f&retryMax != 0)
	p.MaxAttempts = d.int32(d.set(f&retryAttempts != 0))
	p.JitterMillis = d.set(f&retryJitter != 0)
}

func (d *Decoder) options(o *QueueOptions) {
	f := d.uvarint()
	if f&^optKnown != 0 {
		d.fail("%s: presence bits %#x, this build knows %#x", opNames[d.op], f, uint64(optKnown))
		f = 0
	}
	o.LeaseMillis = d.set(f&optLease != 0)
	d.retry(&o.Retry, f&optRetry != 0)
	o.MaxDead = d.set(f&optMaxDead != 0)
	o.DeadOverflow = DeadOverflow(d.presentByte(f&optOverflow != 0, "a dead_overflow"))
	o.DeadRetentionMillis = d.set(f&optDeadRetention != 0)
	o.DedupWindowMillis = d.set(f&optDedupWindow != 0)
	o.DedupMaxKeys = d.set(f&optDedupKeys != 0)
	o.ResultTTLMillis = d.set(f&optResultTTL != 0)
	o.MaxResultsBytes = d.set(f&optResultBytes != 0)
	o.Ordering = Ordering(d.presentByte(f&optOrdering != 0, "an ordering"))
	o.MaxDepth = d.set(f&optMaxDepth != 0)
	o.MaxBytes = d.set(f&optMaxBytes != 0)
	o.MaxInFlight = d.set(f&optMaxInFlight != 0)
	o.MaxAgeMillis = d.set(f&optMaxAge != 0)
	o.Paused = f&optPaused != 0
	o.DeadLetterQueue = ""
	if f&optDeadQueue != 0 {
		o.DeadLetterQueue = string(d.presentBytes())
	}
	o.Overflow = Overflow(d.presentByte(f&optOverflowMode != 0, "an overflow"))
	o.Delivery = DeliveryMode(d.presentByte(f&optDelivery != 0, "a delivery"))
	o.RateMilli = d.set(f&optRate != 0)
	o.Burst = d.set(f&optBurst != 0)
	o.MaxInFlightPerKey = d.set(f&optInFlightKey != 0)
	o.RatePerKeyMilli = d.set(f&optRateKey != 0)
	o.BurstPerKey = d.set(f&optBurstKey != 0)
	o.FairBy = FairBy(d.presentByte(f&optFairBy != 0, "a fair_by"))
	o.FairWeights = nil // anew: the state keeps it
	if f&optFairWeights != 0 {
		n := d.count("fair weights", 2, formatWeights)
		if n == 0 {
			d.fail("%s: fair weights are present but none", opNames[d.op])
		}
		for range n {
			o.FairWeights = append(o.FairWeights, FairWeight{Key: string(d.bytes()), Weight: d.varint()})
		}
	}
	d.push(o, f&optPush != 0)
	d.mapping(o, f&optMapping != 0)
}

// presentByte reads a byte that is there, and then not zero, or not.
func (d *Decoder) presentByte(there bool, what string) (v byte) {
	if !there {
		return 0
	}
	if v = d.byte(); v == 0 {
		d.fail("%s: %s that is present is zero", opNames[d.op], what)
	}
	return v
}
