package history

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/quorate/quorate/fsm"
)

// LogEntry is a committed entry as nodes applied it.
type LogEntry struct {
	Index, Term uint64
	Data        []byte
	From        string // the file that showed it first
}

// maxEntry bounds what a tap may claim: more than the largest operation that a group takes.
const maxEntry = 64 << 20

// ErrDiffer says that two nodes applied different entries at one index (G15).
var ErrDiffer = errors.New("nodes applied different entries")

// ReadTaps reads what the nodes of a chaos build have written into a folder (see cluster.EnvTap) and merges it: entries in
// the order of the log, each once. A file may end in a record that was cut short by a kill; anything else that does not fit
// is an error, and so are two nodes that differ.
func ReadTaps(dir string) ([]LogEntry, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.tap"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no *.tap in %s: was the node built with -tags chaos?", dir)
	}
	all := map[uint64]LogEntry{}
	for _, file := range files {
		if err := readTap(file, all); err != nil {
			return nil, fmt.Errorf("tap %s: %w", filepath.Base(file), err)
		}
	}
	out := make([]LogEntry, 0, len(all))
	for _, e := range all {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b LogEntry) int {
		if a.Index < b.Index {
			return -1
		}
		return 1
	})
	return out, nil
}

func readTap(file string, all map[uint64]LogEntry) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	last := uint64(0)
	for {
		var head [24]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return endOfTap(err)
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > maxEntry {
			return fmt.Errorf("record after entry %d claims %d bytes, want at most %d", last, n, maxEntry)
		}
		e := LogEntry{
			Index: binary.BigEndian.Uint64(head[8:]), Term: binary.BigEndian.Uint64(head[16:]), Data: make([]byte, n),
			From: filepath.Base(file),
		}
		if _, err := io.ReadFull(r, e.Data); err != nil {
			return endOfTap(err)
		}
		table := crc32.MakeTable(crc32.Castagnoli)
		if got, want := crc32.Update(crc32.Checksum(head[8:], table), table, e.Data), binary.BigEndian.Uint32(head[4:]); got != want {
			return fmt.Errorf("entry %d: checksum is %08x, its bytes give %08x", e.Index, want, got)
		}
		if e.Index <= last {
			return fmt.Errorf("entry %d comes after entry %d", e.Index, last)
		}
		last = e.Index
		have, ok := all[e.Index]
		if ok && (have.Term != e.Term || string(have.Data) != string(e.Data)) {
			return fmt.Errorf("%w: at index %d %s has term %d and %d bytes, %s term %d and %d bytes",
				ErrDiffer, e.Index, have.From, have.Term, len(have.Data), e.From, e.Term, len(e.Data))
		}
		if !ok {
			all[e.Index] = e
		}
	}
}

// endOfTap is nil where a file just ends, be it within a record.
func endOfTap(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// Replay applies entries to an empty state and tells what each did. digests are those of the state at the checkpoints
// among them, by index: where they are what the nodes say, nothing is missing from the entries.
func Replay(entries []LogEntry) (effects []Effect, digests map[uint64][32]byte, err error) {
	st := fsm.New(0)
	defer st.Close()
	digests = map[uint64][32]byte{}
	var fx fsm.Effects
	batches := map[fsm.ID]bool{} // that have not called back
	keys := st.KVPosition()
	dead := letters{map[string]int64{}, map[fsm.ID]bool{}}
	t, shift := int64(0), int64(0)
	for i := range entries {
		le := &entries[i]
		e, err := fsm.DecodeEntry(le.Data)
		if err != nil {
			return nil, nil, fmt.Errorf("entry %d: %w", le.Index, err)
		}
		if err := st.Apply(le.Index, le.Data, &fx); err != nil {
			return nil, nil, fmt.Errorf("apply entry %d: %w", le.Index, err)
		}
		now := max(t, e.Now)
		shift += min(max(e.Shift, 0), now-t)
		t = now
		effects = append(effects, Effect{Op: Entry, Index: le.Index, Time: t, Shift: shift, Term: le.Term})
		made := made{st: st, index: le.Index}
		effects = made.callbacks(effects, batches)
		effects = made.buried(effects, fx.Tasks, &dead)
		for _, end := range fx.Ended {
			if end.Expired {
				effects = append(effects, Effect{Op: Expire, Index: le.Index, Token: end.Token.String()})
			}
		}
		from := int32(0)
		ops := carriedOut(e.Ops, &fx)
		for j, op := range ops {
			end := fx.OpEnd[j]
			out := fx.Outcomes[from:end]
			if op == nil {
				from = end
				continue
			}
			before := len(effects)
			effects = appendOp(effects, le.Index, op, out, fx.Leases)
			for k := before; k < len(effects); k++ {
				if e := &effects[k]; e.Op == Plan && e.Code == "" {
					in, _ := st.Schedule([]byte(e.Name))
					e.Generation = in.Generation
				}
			}
			if ack, ok := op.(*fsm.Ack); ok && out[0].Code == fsm.OK {
				effects = made.chain(effects, ack, ops[j+1:])
			}
			made.note(out, fx.Leases)
			switch op := op.(type) {
			case *fsm.CreateQueue:
				if op.Options.DeadLetterQueue != "" {
					dead.moved[op.Options.DeadLetterQueue] += 0
				}
			case *fsm.DeadRequeue, *fsm.DeadEdit:
				for k := range out {
					if out[k].Code == fsm.OK {
						dead.from[out[k].ID] = true
					}
				}
			}
			if _, ok := op.(*fsm.BatchCreate); ok && out[0].Code == fsm.OK && out[0].ID.Index() == le.Index { // else it is a repeat's answer
				batches[out[0].ID] = true
			}
			from = end
		}
		if effects, keys, err = made.keys(effects, keys); err != nil {
			return nil, nil, err
		}
		for _, end := range fx.Tasks {
			if !end.Message.IsZero() {
				effects = append(effects, Effect{Op: End, Index: le.Index, Message: end.Message.String()})
			}
		}
		if len(fx.Checkpoints) > 0 {
			v := st.View()
			digests[le.Index] = v.Digest()
			v.Release()
		}
	}
	if err := st.Check(); err != nil {
		return nil, nil, fmt.Errorf("the state after the last entry: %w", err)
	}
	return effects, digests, nil
}

// carriedOut are the operations of an entry without their idempotency keys, nil for those that their keys kept from being carried out.
func carriedOut(all []fsm.Op, fx *fsm.Effects) []fsm.Op {
	ops := slices.Clone(all)
	from := int32(0)
	for i, op := range ops {
		out := fx.Outcomes[from:fx.OpEnd[i]]
		from = fx.OpEnd[i]
		keyed, ok := op.(*fsm.Idempotent)
		if !ok {
			continue
		}
		if ops[i] = keyed.Op; len(out) > 0 && (out[0].Replayed || out[0].Field == fsm.FieldIdempotency) {
			ops[i] = nil
		}
	}
	return ops
}

// codes are the outcomes' names, as clients see them.
var codes = map[fsm.Code]string{
	fsm.OK: "", fsm.InvalidArgument: "invalid_argument", fsm.NotFound: "not_found", fsm.AlreadyExists: "already_exists",
	fsm.LeaseLost: "lease_lost", fsm.Cancelled: "cancelled", fsm.QueueFull: "queue_full", fsm.Overloaded: "overloaded",
	fsm.FailedPrecondition: "failed_precondition", fsm.SessionExpired: "session_expired", fsm.TooLarge: "too_large",
}

func codeName(c fsm.Code) string {
	if s, ok := codes[c]; ok {
		return s
	}
	return fmt.Sprintf("code %d", c)
}

var modes = map[fsm.Ordering]string{fsm.OrderUnordered: "unordered", fsm.OrderFIFO: "fifo", fsm.OrderPerKey: "per_key"}

// appendOp tells what one operation did.
func appendOp(to []Effect, index uint64, op fsm.Op, out []fsm.Outcome, leases []fsm.Leased) []Effect {
	var o fsm.Outcome
	if len(out) > 0 {
		o = out[0]
	}
	e := Effect{Index: index, Code: codeName(o.Code), Duplicate: o.Duplicate, Dead: o.Dead, Millis: o.Millis}
	request := func(r fsm.Request) {
		if !r.Session.IsZero() {
			e.Session, e.Number = r.Session.String(), r.Number
		}
	}
	switch op := op.(type) {
	case *fsm.Bootstrap, *fsm.OpenSession, *fsm.TouchSession, *fsm.Checkpoint, *fsm.Nothing:
		return to
	case *fsm.CreateQueue:
		if o.Code != fsm.OK || o.Duplicate {
			return to
		}
		request(op.Request)
		options := op.Options
		options.Normalize()
		e.Op, e.Queue, e.Note = Queue, string(op.Name), strange(&options)
		e.Options = &Options{
			Mode: modes[options.Ordering], Lease: options.LeaseMillis, Window: options.DedupWindowMillis, Retry: options.Retry,
			Once: options.Delivery == fsm.DeliverAtMostOnce, Rate: options.RateMilli, Burst: options.Burst,
			KeyRate: options.RatePerKeyMilli, KeyBurst: options.BurstPerKey, Dead: options.DeadLetterQueue,
			Mapped: options.Mapped(), MapTo: options.MapTo.Queue,
		}
		if options.RateMilli != 0 && options.Burst == 0 { // a second's worth
			e.Options.Burst = max(1, options.RateMilli/1000)
		}
		if options.RatePerKeyMilli != 0 && options.BurstPerKey == 0 {
			e.Options.KeyBurst = max(1, options.RatePerKeyMilli/1000)
		}
	case *fsm.Enqueue:
		for i := range op.Messages {
			to = append(to, enqueued(index, op, i, &out[i]))
		}
		return to
	case *fsm.Lease:
		request(op.Request)
		e.Op, e.Queue, e.Length = Lease, string(op.Queue), op.LeaseMillis
		if o.Code == fsm.OK && o.LeaseCount > 0 {
			for _, l := range leases[o.LeaseFrom : o.LeaseFrom+o.LeaseCount] {
				one := e
				one.Message, one.Token, one.Attempt = l.Token.Message.String(), l.Token.String(), int(l.Attempt)
				to = append(to, one)
			}
			return to
		}
	case *fsm.Ack:
		e.Op, e.Token, e.Message = Ack, op.Token.String(), op.Token.Message.String()
		if op.HasResult {
			e.Result = Sum(op.Result.Output)
		}
		e.Chained, e.Generation, e.Millis = len(op.Then), op.Mapping, 0 // how long it was out is told to nobody
	case *fsm.Nack:
		e.Op, e.Token, e.Message = Nack, op.Token.String(), op.Token.Message.String()
		e.Permanent, e.Delay, e.Generation = op.Permanent, op.DelayMillis, op.Mapping
	case *fsm.Extend:
		e.Op, e.Token, e.Message, e.Length = Extend, op.Token.String(), op.Token.Message.String(), op.LeaseMillis
	case *fsm.Release:
		e.Op, e.Token, e.Message, e.Spent = Release, op.Token.String(), op.Token.Message.String(), op.Spent
	case *fsm.PushResult:
		request(op.Request)
		e.Op, e.Queue, e.Message, e.Result = Push, string(op.Queue), string(op.TaskID), Sum(op.Result.Output)
	case *fsm.Cancel:
		request(op.Request)
		e.Op, e.Queue, e.Message = Cancel, string(op.Queue), string(op.TaskID)
	case *fsm.BatchCreate:
		e = describe(index, string(op.Queue), &op.Callback)
		e.Op, e.Code, e.Duplicate = Batch, codeName(o.Code), o.Duplicate
		request(op.Request)
		if o.Code == fsm.OK {
			e.Message = o.ID.String()
		}
	case *fsm.BatchSeal:
		request(op.Request)
		e.Op, e.Message = Seal, op.Batch.String()
	case *fsm.DeadRequeue:
		return appendLetters(to, e, Requeue, op.Request, op.Queue, op.IDs, out)
	case *fsm.DeadDelete:
		return appendLetters(to, e, Delete, op.Request, op.Queue, op.IDs, out)
	case *fsm.DeadPurge:
		request(op.Request)
		e.Op, e.Queue, e.Count = Purge, string(op.Queue), o.Count
	default:
		if !appendChange(&e, op, &o, request) {
			e.Op, e.Note = Other, fmt.Sprintf("%T", op)
		}
	}
	return append(to, e)
}

// appendLetters tells what an operation did to each of the dead letters that it names.
func appendLetters(to []Effect, e Effect, kind Op, r fsm.Request, queue []byte, ids []fsm.ID, out []fsm.Outcome) []Effect {
	for i := range out {
		one := Effect{Op: kind, Index: e.Index, Queue: string(queue), Message: ids[i].String(), Code: codeName(out[i].Code)}
		if !r.Session.IsZero() {
			one.Session, one.Number = r.Session.String(), r.Number+uint64(i)
		}
		if kind == Requeue && out[i].Code == fsm.OK {
			one.Made = out[i].ID.String()
		}
		to = append(to, one)
	}
	return to
}

// strange names options that are not judged, "" where all that is set is.
func strange(o *fsm.QueueOptions) string {
	plain := fsm.QueueOptions{
		Ordering: o.Ordering, Delivery: o.Delivery, RateMilli: o.RateMilli, Burst: o.Burst,
		RatePerKeyMilli: o.RatePerKeyMilli, BurstPerKey: o.BurstPerKey, DeadLetterQueue: o.DeadLetterQueue, LeaseMillis: o.LeaseMillis, Retry: o.Retry, DedupWindowMillis: o.DedupWindowMillis,
		// What these limit is never reached, or the refusal is taken as it is.
		MaxDead: o.MaxDead, DeadRetentionMillis: o.DeadRetentionMillis, DedupMaxKeys: o.DedupMaxKeys,
		ResultTTLMillis: o.ResultTTLMillis, MaxResultsBytes: o.MaxResultsBytes, MaxDepth: o.MaxDepth, MaxBytes: o.MaxBytes,
		// Of these nothing follows in the log.
		PushURL: o.PushURL, PushConcurrency: o.PushConcurrency, PushTimeoutMillis: o.PushTimeoutMillis, PushSecrets: o.PushSecrets,
		PushPermanent: o.PushPermanent, PushHeaders: o.PushHeaders,
		Schema: o.Schema, Map: o.Map, MapTo: o.MapTo, // what is enqueued by it stands in acks, and whether it may is judged by Mapped
	}
	plain.Normalize()
	if reflect.DeepEqual(&plain, o) {
		return ""
	}
	return "options beyond ordering, delivery, rates, lease, retry, dedup, dead-letter queue, depth and bytes"
}

func enqueued(index uint64, op *fsm.Enqueue, i int, o *fsm.Outcome) Effect {
	e := describe(index, string(op.Queue), &op.Messages[i])
	e.Op, e.Code, e.Duplicate, e.Auto = Enqueue, codeName(o.Code), o.Duplicate, op.AutoCreate
	if !op.Request.Session.IsZero() {
		e.Session, e.Number = op.Request.Session.String(), op.Request.Number+uint64(i)
	}
	if !o.ID.IsZero() {
		e.Message = o.ID.String()
	}
	return e
}

// describe is what an effect says of a message.
func describe(index uint64, queue string, m *fsm.Message) Effect {
	e := Effect{
		Index: index, Queue: queue, Body: Sum(m.Body), Priority: int(m.Priority), Key: string(m.Key),
		Delay: m.DelayMillis, Due: m.DueAt, TTL: m.TTLMillis, Timeout: m.TimeoutMillis,
	}
	if m.HasDedup {
		e.Dedup, e.Content = hex.EncodeToString(m.DedupKey[:]), hex.EncodeToString(m.DedupContent[:])
	}
	if m.Retry.Kind != fsm.RetryDefault {
		p := m.Retry
		p.Normalize()
		p.Steps = slices.Clone(p.Steps)
		e.Retry = &p
	}
	if !m.Batch.IsZero() {
		e.Batch = m.Batch.String()
	}
	for _, k := range m.Keys {
		e.Keys = append(e.Keys, KeyName(fsm.KVKeyParts(k)))
	}
	if len(m.TaskID) > 0 {
		e.Note = "task id"
	}
	return e
}
