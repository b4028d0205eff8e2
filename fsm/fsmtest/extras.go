package fsmtest

import (
	"bytes"
	"slices"
	"strings"

	"github.com/quorate/quorate/fsm"
)

// extras is what a seed draws of cancelling, rescheduling, the KV, batches and schedules, in percent of the operations or
// messages; some seeds have none of it, so that the rest is met often.
type extras struct {
	tasks, keys, kv, members, batching, scheduling int
	batches                                        []fsm.ID // of past batches, newest last
	idem                                           int
	keyed                                          []*fsm.Idempotent // newest last
}

// steps is how many operations are a leader's steps of schedules.
func (x *extras) steps() int { return 2 * x.scheduling }

func (g *Generator) drawExtras() {
	g.extra = extras{tasks: pick(g, 0, 6, 12, 40)}
	if g.crowd {
		return // a crowd has keys in a scenario of its own
	}
	if g.chance(60) {
		g.extra.keys, g.extra.kv = pick(g, 10, 30, 70), pick(g, 2, 6)
	}
	if g.chance(60) {
		g.extra.members, g.extra.batching = pick(g, 10, 30, 70), pick(g, 3, 8)
	}
	if g.chance(50) {
		g.extra.scheduling = pick(g, 2, 4, 10)
	}
	if g.chance(50) {
		g.extra.idem = pick(g, 3, 8, 20)
	}
}

// extraOp draws one of the operations that extras are about, or none.
func (g *Generator) extraOp() (op fsm.Op, requested, ok bool) {
	var o fsm.Op
	var r *fsm.Request
	p := g.rng.IntN(100)
	upTo := func(percent int) bool { p -= percent; return p < 0 }
	switch x := &g.extra; {
	case upTo(x.tasks):
		if g.chance(45) {
			c := &fsm.Cancel{}
			c.Queue, c.TaskID = g.taskName()
			o, r = c, &c.Request
		} else {
			c := g.reschedule()
			o, r = c, &c.Request
		}
	case upTo(x.steps()):
		return g.fire(), true, true
	case upTo(x.kv):
		c := &fsm.KVDelete{Key: g.kvKey()}
		o, r = c, &c.Request
	case upTo(x.batching):
		if g.chance(50) {
			c := g.batchCreate()
			o, r = c, &c.Request
		} else {
			c := &fsm.BatchSeal{Batch: g.batchID()}
			o, r = c, &c.Request
		}
	case upTo(x.scheduling):
		switch p := g.rng.IntN(100); {
		case p < 40:
			c := &fsm.CreateSchedule{Schedule: g.schedule()}
			o, r = c, &c.Request
		case p < 85:
			c := &fsm.SetSchedule{Schedule: g.schedule()}
			o, r = c, &c.Request
		default:
			c := &fsm.DeleteSchedule{Name: g.scheduleName()}
			o, r = c, &c.Request
		}
	default:
		return nil, false, false
	}
	*r = g.request(1, false)
	return o, !r.Session.IsZero(), true
}

// tableEnds are the times at which something of these tables ends.
func (g *Generator) tableEnds() (ends []int64) {
	for _, r := range g.model.kv.records {
		ends = append(ends, r.end)
	}
	for _, b := range g.model.batches {
		if b.end() != 0 {
			ends = append(ends, b.end())
		}
	}
	for _, k := range g.model.idems {
		ends = append(ends, k.end)
	}
	for _, s := range g.model.schedules {
		if at := s.dueAt(); at > g.model.t {
			ends = append(ends, at, at, at)
		}
	}
	return ends
}

// taskName names a task: mostly one that is there.
func (g *Generator) taskName() (queue, task []byte) {
	queue, task = g.queueName(), g.taskID()
	if g.chance(60) {
		var live []*message
		q := g.model.queue(string(queue))
		if q != nil {
			live = append(append(live, q.messages...), q.dead...)
		}
		if len(live) > 0 {
			x := pick(g, live...)
			for _, y := range live {
				if g.chance(40) && g.model.resultOfTask(q, y.task) != nil {
					x = y // it goes on although its task has a result
				}
			}
			task = []byte(pick(g, x.task, idText(x.id)))
		}
	}
	if g.chance(20) {
		queue = nil
	}
	return queue, task
}

func (g *Generator) reschedule() *fsm.Reschedule {
	o := &fsm.Reschedule{When: pick(g, fsm.KeepTime, fsm.AfterDelay, fsm.AfterDelay, fsm.AtTime)}
	o.Queue, o.TaskID = g.taskName()
	switch o.When {
	case fsm.AfterDelay:
		o.Time = pick(g, 0, 1, 500, int64(g.rng.IntN(5000)), 60_000, maxDelay)
		if g.chance(50) {
			o.MaxWaitMillis = pick(g, 1, 100, int64(1+g.rng.IntN(6000)), maxDelay)
		}
	case fsm.AtTime:
		o.Time = g.t + pick(g, -1000, 0, 1, int64(g.rng.IntN(5000)), maxDelay)
	}
	if o.HasBody = o.When == fsm.KeepTime && !g.chance(5) || g.chance(25); o.HasBody {
		o.Body = g.body()
		if g.chance(40) {
			o.ContentType = g.text(128)
		}
	}
	if g.chance(4) {
		switch g.rng.IntN(3) {
		case 0:
			o.When, o.Time = fsm.AfterDelay, pick(g, -1, maxDelay+1)
		case 1:
			o.When, o.Time = fsm.AtTime, pick(g, -1, g.t+maxDelay+1)
		case 2:
			o.MaxWaitMillis = pick(g, -1, maxDelay+1, 1)
		}
	}
	return o
}

// kvKey is one of few keys, or one that is none.
func (g *Generator) kvKey() []byte {
	if g.chance(3) {
		return pick(g, []byte{}, []byte("\xff"), fsm.AppendKVKey(nil, strings.Repeat("k", 257)),
			fsm.AppendKVKey(nil, strings.Split(strings.Repeat("k ", 16)+"k", " ")...), fsm.AppendKVKey(nil, "not \xff utf-8"))
	}
	if g.chance(5) {
		return fsm.AppendKVKey(nil, strings.Repeat("k", 256), strings.Repeat("\x00", 200))
	}
	return fsm.AppendKVKey(nil, pick(g, []string{"a"}, []string{"a", "b"}, []string{"a", "b", ""}, []string{"a", "bc"}, []string{"a\x00", "b"}, []string{"ä"}, []string{""}, []string{"b"})...)
}

// hooked gives a message keys and a batch.
func (g *Generator) hooked(x *fsm.Message) {
	if g.chance(g.extra.keys) {
		for n := 1 + g.rng.IntN(3); n > 0; n-- {
			if k := g.kvKey(); g.chance(3) || !slices.ContainsFunc(x.Keys, func(other []byte) bool { return bytes.Equal(k, other) }) {
				x.Keys = append(x.Keys, k)
			}
		}
		if g.chance(3) {
			x.Keys = nil
			for n := pick(g, 16, 17); n > 0; n-- {
				x.Keys = append(x.Keys, fsm.AppendKVKey(nil, "many", strings.Repeat("k", n)))
			}
		}
	}
	if g.chance(g.extra.members) {
		x.Batch = g.batchID()
	}
}

// batchID is mostly that of a batch which is there and open.
func (g *Generator) batchID() fsm.ID {
	if len(g.extra.batches) == 0 {
		if g.chance(95) {
			return fsm.ID{}
		}
		return g.someID()
	}
	if g.chance(60) {
		var open []fsm.ID
		for _, b := range g.model.batches {
			if !b.sealed {
				open = append(open, b.id)
			}
		}
		if len(open) > 0 {
			return pick(g, open...)
		}
	}
	if g.chance(5) {
		return g.someID()
	}
	return pick(g, g.extra.batches...)
}

// template is a message that something is to enqueue later.
func (g *Generator) template() fsm.Message {
	x := g.message()
	if !g.chance(4) {
		x.TaskID, x.HasDedup, x.DedupKey, x.DedupContent, x.Batch = nil, false, [16]byte{}, [16]byte{}, fsm.ID{}
	}
	return x
}

func (g *Generator) batchCreate() *fsm.BatchCreate {
	o := &fsm.BatchCreate{Queue: g.queueName(), AutoCreate: !g.chance(20), Callback: g.template()}
	if !g.chance(4) {
		o.Callback.Keys = nil
	}
	if g.chance(3) {
		o.Callback.Body = []byte(strings.Repeat("c", maxCallbackBytes+g.rng.IntN(2)))
	}
	if g.chance(3) {
		o.Callback.Headers = nil
		for range pick(g, 59, 60) {
			o.Callback.Headers = append(o.Callback.Headers, fsm.Header{Name: []byte("h"), Value: []byte("v")})
		}
	}
	return o
}

func (g *Generator) scheduleName() []byte {
	if g.chance(2) {
		return []byte(pick(g, "", "-x", strings.Repeat("s", maxScheduleName), strings.Repeat("s", maxScheduleName+1)))
	}
	return []byte(pick(g, "beat", "nightly", "s:1"))
}

func (g *Generator) schedule() fsm.Schedule {
	if g.chance(35) && len(g.model.schedules) > 0 {
		s := pick(g, g.model.schedules...).def // the same again, or with something changed
		switch g.rng.IntN(4) {
		case 0:
			s.Paused = !s.Paused
		case 1:
			s.Cron = []byte(pick(g, "@daily", "* * * * *"))
		case 2:
			s.Message.Body = g.body()
		}
		return s
	}
	s := fsm.Schedule{
		Name: g.scheduleName(), Queue: g.queueName(), Cron: []byte(pick(g, "@daily", "* * * * *")), Zone: []byte(pick(g, "", "", "Europe/Berlin")),
		JitterMillis: pick(g, 0, 0, 1, 10, 1000, day), Policy: pick(g, fsm.MissedSkip, fsm.MissedOnce, fsm.MissedAll),
		Paused: g.chance(15), AutoCreate: g.chance(60), Message: g.template(),
	}
	if !g.chance(4) {
		s.Message.DelayMillis, s.Message.DueAt = 0, 0
	}
	if g.chance(4) {
		s.Queue, s.AutoCreate = []byte("unknown"), false
	}
	if g.chance(12) {
		switch g.rng.IntN(6) {
		case 0:
			s.Cron = []byte(pick(g, "", strings.Repeat("*", maxCron), strings.Repeat("*", maxCron+1), "not \xff utf-8"))
		case 1:
			s.Zone = []byte(pick(g, strings.Repeat("Z", maxZone), strings.Repeat("Z", maxZone+1)))
		case 2:
			s.JitterMillis = pick(g, -1, day+1)
		case 3:
			s.Policy = 3
		case 4:
			s.Message.Headers = nil
			for range pick(g, 62, 63) {
				s.Message.Headers = append(s.Message.Headers, fsm.Header{Name: []byte("h"), Value: []byte("v")})
			}
		case 5:
			s.Message.Batch = g.someID()
		}
	}
	return s
}

// fire is a leader's step: mostly the one that the schedule is to take next.
func (g *Generator) fire() *fsm.FireSchedule {
	o := &fsm.FireSchedule{Name: g.scheduleName(), Generation: uint64(g.rng.IntN(5))}
	s := g.model.scheduleByName(string(o.Name))
	if len(g.model.schedules) > 0 && !g.chance(5) {
		s = pick(g, g.model.schedules...)
		o.Name = s.def.Name
	}
	if s != nil {
		o.Generation, o.At = s.generation, max(0, s.next)
	}
	o.Fire = o.At != fsm.FireUnplanned && !g.chance(15)
	o.Next = max(o.At, g.t) + pick[int64](g, 1, 1000, 60_000)
	if g.chance(10) {
		o.Skipped = int64(g.rng.IntN(5))
	}
	if g.chance(4) {
		o.Next = fsm.FireNever
	}
	if g.chance(8) {
		switch g.rng.IntN(6) {
		case 0:
			o.Generation += pick[uint64](g, 1, ^uint64(0))
		case 1:
			o.At = max(0, o.At+pick[int64](g, 1, -1))
		case 2:
			o.Next = o.At
		case 3:
			o.Skipped = pick(g, -1, maxTime, maxTime+1)
		case 4:
			o.At, o.Fire = fsm.FireUnplanned, true
		case 5:
			o.At, o.Next = -1, pick(g, 0, maxTime+1)
		}
	}
	return o
}
