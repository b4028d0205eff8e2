package transport

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// slowLog says which operations took long, and in which phase. They are noticed where they are answered, with the state's lock held, so
// what is to be said goes to a goroutine that writes it: a log that is not read holds nobody up.
type slowLog struct {
	over time.Duration
	log  *slog.Logger
	ops  chan slowOp
	left atomic.Int64 // operations that there was no line for
}

// slowOp is one of them.
type slowOp struct {
	kind                      wire.Type
	queue, remote, code       string
	count                     int
	wait, commit, apply, took time.Duration
	pull                      bool // its wait for a message is not in took
}

// What a slow log writes at most: slowBurst lines at once, and one more every slowEvery. Whatever else was slow is counted, in the next line.
const (
	slowBurst = 20
	slowEvery = 200 * time.Millisecond
)

func newSlowLog(over time.Duration, log *slog.Logger) *slowLog {
	return &slowLog{over: over, log: log, ops: make(chan slowOp, slowBurst)}
}

// look judges an operation that has just been answered. It does not block.
func (l *slowLog) look(c *conn, k *call, st *fsm.State, out []fsm.Outcome, err *group.Error) {
	now := c.srv.cfg.Broker.Clock().Mono()
	from := k.mono
	pull := k.kind == wire.TypeLease
	if pull { // which may wait as long as it was told to
		if from = k.Packed; from == 0 {
			return
		}
	}
	took := now - from
	if took < l.over {
		return
	}
	op := slowOp{kind: k.kind, remote: c.remote, took: took, pull: pull}
	switch {
	case k.Packed == 0:
		op.wait = took
	case k.Applying == 0:
		op.wait, op.commit = k.Packed-from, now-k.Packed
	default:
		op.wait, op.commit, op.apply = k.Packed-from, k.Applying-k.Packed, now-k.Applying
	}
	if len(l.ops) == cap(l.ops) {
		l.left.Add(1)
		return
	}
	op.queue, op.count = queueOf(k, st), max(1, len(out))
	switch {
	case err != nil:
		op.code = err.Code
	case len(out) == 1 && out[0].Code != fsm.OK:
		op.code = string(refusal(k, st, &out[0]).Code)
	}
	select {
	case l.ops <- op:
	default:
		l.left.Add(1)
	}
}

// queueOf is the queue of an operation, of several the first one's; "" where that is not known any more.
func queueOf(k *call, st *fsm.State) string {
	if k.queue != "" || st == nil {
		return k.queue
	}
	e, err := fsm.DecodeEntry(append(fsm.AppendEntryHeader(nil, 0, 0), k.Op...))
	if err != nil || len(e.Ops) == 0 {
		return ""
	}
	one := e.Ops[0]
	if keyed, ok := one.(*fsm.Idempotent); ok {
		one = keyed.Op
	}
	var id fsm.ID
	switch op := one.(type) {
	case *fsm.Ack:
		id = op.Token.Message
	case *fsm.Nack:
		id = op.Token.Message
	case *fsm.Extend:
		id = op.Token.Message
	case *fsm.Release:
		id = op.Token.Message
	case *fsm.Lease:
		return string(op.Queue)
	default:
		return ""
	}
	var in fsm.Info
	if !st.Task("", fsm.AppendID(nil, id), &in) {
		return ""
	}
	return in.Queue
}

// keep writes lines until done is closed.
func (l *slowLog) keep(done <-chan struct{}) {
	room, last := slowBurst, time.Now()
	for {
		select {
		case op := <-l.ops:
			now := time.Now()
			if n := int(now.Sub(last) / slowEvery); n > 0 {
				room, last = min(slowBurst, room+n), last.Add(time.Duration(n)*slowEvery)
			}
			if room == 0 {
				l.left.Add(1)
				continue
			}
			room--
			l.write(op)
		case <-done:
			return
		}
	}
}

func (l *slowLog) write(op slowOp) {
	attrs := []slog.Attr{slog.String("op", opName(op.kind)), slog.String("queue", op.queue), slog.Int("count", op.count), slog.Duration("took", op.took),
		slog.Duration("wait", op.wait), slog.Duration("commit", op.commit), slog.Duration("apply", op.apply), slog.String("remote", op.remote)}
	if op.pull { // what it waited for is a message
		attrs = append(attrs[:4], attrs[5:]...)
	}
	if op.code != "" {
		attrs = append(attrs, slog.String("code", op.code))
	}
	if n := l.left.Swap(0); n > 0 {
		attrs = append(attrs, slog.Int64("left_out", n))
	}
	l.log.LogAttrs(context.Background(), slog.LevelWarn, "slow operation", attrs...)
}

// opNames are the operations that go through the log, as the protocol's page calls them.
var opNames = map[wire.Type]string{
	wire.TypeEnqueue: "enqueue", wire.TypeLease: "lease", wire.TypeAck: "ack", wire.TypeNack: "nack", wire.TypeExtend: "extend", wire.TypeRelease: "release",
	wire.TypeResultPush: "result_push", wire.TypeTaskCancel: "task_cancel", wire.TypeTaskReschedule: "task_reschedule",
	wire.TypeQueueCreate: "queue_create", wire.TypeQueueSet: "queue_set", wire.TypeQueueDelete: "queue_delete", wire.TypeQueuePurge: "queue_purge",
	wire.TypeDeadRequeue: "dead_requeue", wire.TypeDeadDelete: "dead_delete", wire.TypeDeadPurge: "dead_purge", wire.TypeDeadEdit: "dead_edit",
	wire.TypeKVDelete: "kv_delete", wire.TypeBatchCreate: "batch_create", wire.TypeBatchSeal: "batch_seal",
	wire.TypeScheduleCreate: "schedule_create", wire.TypeScheduleSet: "schedule_set", wire.TypeScheduleDelete: "schedule_delete",
}

func opName(t wire.Type) string {
	if name := opNames[t]; name != "" {
		return name
	}
	return "type " + strconv.Itoa(int(t))
}
