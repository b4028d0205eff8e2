package fsmtest

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/fsm"
)

// corners is what a seed draws of things that are rare elsewhere, in percent of the operations; most seeds have none of it.
type corners struct {
	flips   int      // options about keys are switched back and forth, over many keys
	remakes int      // results are pushed for tasks that live and die, whose queues are deleted and made anew
	said    []fsm.Op // past answers of workers, newest last
	chased  fsm.ID   // first id of the message that remakes are after
}

// farTimes are where log time begins in seeds that are far ahead: near the end of rates, where nanoseconds no longer fit into an int64,
// and as near to the end of time as a run leaves.
var farTimes = []int64{rateHorizon - 40*day, rateHorizon - 3_600_000, rateHorizon - 1000, rateHorizon, 9_223_372_036_854, maxTime - 400*366*day}

func (g *Generator) drawCorners() {
	g.epoch = 1_700_000_000_000
	if g.crowd || g.heavy {
		return
	}
	if g.chance(25) {
		g.corner.flips = pick(g, 10, 40)
	}
	if g.chance(25) {
		g.corner.remakes = pick(g, 10, 40)
	}
	if g.chance(20) {
		g.epoch = pick(g, farTimes...)
	}
}

// cornerOp draws one of the operations that corners are about, or none.
func (g *Generator) cornerOp() (op fsm.Op, requested, ok bool) {
	switch p := g.rng.IntN(100); {
	case p < g.corner.flips:
		op, requested = g.flipOp()
	case p < g.corner.flips+g.corner.remakes:
		op, requested = g.remakeOp()
	default:
		return nil, false, false
	}
	return op, requested, true
}

// flipOp changes what keys know, or moves what is in them.
func (g *Generator) flipOp() (op fsm.Op, requested bool) {
	name := g.queueName()
	full := g.live() > 150 // the model walks over all there is
	switch p := g.rng.IntN(100); {
	case p < 30 && full:
		return &fsm.PurgeQueue{Name: name}, false
	case p < 30:
		o := &fsm.Enqueue{Request: g.request(1, false), Queue: name, AutoCreate: true, Messages: []fsm.Message{g.message()}}
		if o.Request.Session.IsZero() { // else one number would stand for many
			for range g.rng.IntN(12) {
				x := fsm.Message{Priority: pick[uint8](g, 4, 4, 4, 9), Body: g.body(), Key: fmt.Appendf(nil, "k%d", g.rng.IntN(20))}
				o.Messages = append(o.Messages, x)
			}
		}
		g.fit(name, o.Messages)
		return o, !o.Request.Session.IsZero()
	case p < 60:
		o := g.lease()
		o.Queue, o.Max = name, int32(1+g.rng.IntN(12))
		return o, !o.Request.Session.IsZero()
	case p < 68:
		return &fsm.Ack{Token: g.token()}, false
	case p < 76:
		return &fsm.Release{Token: g.token()}, false
	}
	q := g.model.queue(string(name))
	if q == nil {
		o := &fsm.CreateQueue{Request: g.request(1, false), Name: name}
		g.flip(&o.Options)
		return o, !o.Request.Session.IsZero()
	}
	to := q.options
	g.flip(&to)
	if g.chance(30) {
		o := &fsm.ChangeQueue{Request: g.request(1, false), Name: name, Options: to}
		for _, bit := range []int{28, 31, 32, 33, 34} {
			o.Only |= 1 << bit
		}
		return o, !o.Request.Session.IsZero()
	}
	o := &fsm.SetQueue{Request: g.request(1, false), Name: name, Options: to}
	return o, !o.Request.Session.IsZero()
}

// flip changes one option about keys, often to what comes to the same.
func (g *Generator) flip(o *fsm.QueueOptions) {
	switch g.rng.IntN(7) {
	case 0:
		o.BurstPerKey = pick(g, 0, 1, 2, max(1, o.RatePerKeyMilli/1000))
	case 1:
		o.RatePerKeyMilli = pick[int64](g, 1, 300, 1000, 5000, 1_000_000_000, 999_999_999)
	case 2:
		o.FairBy = fsm.FairBy(g.rng.IntN(2))
	case 3:
		o.MaxInFlightPerKey = pick[int64](g, 0, 1, 2, 5)
	case 4:
		o.FairBy, o.FairWeights = fsm.FairByKey, []fsm.FairWeight{{Key: "a", Weight: int64(1 + g.rng.IntN(3))}, {Key: "k1", Weight: 2}}
	case 5:
		o.MaxInFlightPerKey, o.RatePerKeyMilli, o.FairBy = 0, 0, fsm.FairByNone
	case 6:
		o.RatePerKeyMilli, o.BurstPerKey = pick[int64](g, 0, 10, 100), 0
	}
	if o.RatePerKeyMilli == 0 {
		o.BurstPerKey = 0
	}
	if o.RatePerKeyMilli > 0 && g.chance(10) {
		o.BurstPerKey = 1_000_000
	}
	g.mend(o)
}

// remakeOp ends tasks in more ways than one, and takes the queue away under them.
func (g *Generator) remakeOp() (op fsm.Op, requested bool) {
	if op := g.chase(); op != nil && g.chance(60) {
		return op, false
	}
	switch p := g.rng.IntN(100); {
	case p < 25:
		o := &fsm.PushResult{Request: g.request(1, false), Result: g.result()}
		if o.Queue, o.TaskID = g.goingOn(); o.TaskID == nil {
			o.Queue, o.TaskID = g.taskName()
		}
		return o, !o.Request.Session.IsZero()
	case p < 45:
		return g.say(&fsm.Nack{Token: g.pushedToken(), DelayMillis: -1, Permanent: g.chance(80), Error: []byte("dies")}), false
	case p < 50:
		return g.say(&fsm.Release{Token: g.pushedToken()}), false
	case p < 56:
		o := &fsm.Ack{Token: g.pushedToken()}
		if o.HasResult = g.chance(50); o.HasResult {
			o.Result = g.result()
		}
		return g.say(o), false
	case p < 78 && len(g.corner.said) > 0:
		return pick(g, g.corner.said...), false
	case p < 88:
		o := &fsm.DeadRequeue{Queue: g.queueName()}
		o.IDs = g.deadIDs(string(o.Queue))
		return o, false
	case p < 91:
		return &fsm.DeleteQueue{Name: g.queueName()}, false
	case p < 92:
		return &fsm.PurgeQueue{Name: g.queueName()}, false
	}
	o := g.lease()
	return o, !o.Request.Session.IsZero()
}

// chase leads one message through lease, pushed result, death, redrive and ack, and has what its workers said be said again, as far
// as it goes along with that; nil where there is none to chase.
func (g *Generator) chase() fsm.Op {
	var at *queue
	var x *message
	var others []fsm.ID
	for _, q := range g.model.queues {
		for _, y := range append(slices.Clone(q.messages), q.dead...) {
			if y.original == g.corner.chased {
				at, x = q, y
			}
			others = append(others, y.original)
		}
	}
	if x == nil {
		if len(others) > 0 && g.chance(30) {
			g.corner.chased, g.corner.said = pick(g, others...), nil
		}
		if len(g.corner.said) > 0 {
			return pick(g, g.corner.said...)
		}
		return nil
	}
	home := g.model.home(at, x)
	if home != nil && x.state != fsm.StateReady && g.model.resultOfTask(home, x.task) == nil && g.chance(40) {
		return &fsm.PushResult{Queue: []byte(home.name), TaskID: []byte(x.task), Result: fsm.Result{Output: []byte("P")}}
	}
	switch {
	case len(g.corner.said) > 0 && g.chance(30):
		return pick(g, g.corner.said...)
	case x.state == fsm.StateReady:
		return &fsm.Lease{Queue: []byte(at.name), Max: 100, MaxBytes: maxLeaseBytes, LeaseMillis: maxLease}
	case x.state == fsm.StateLeased && x.redrives > 0 && g.chance(60):
		return g.say(&fsm.Ack{Token: x.token(), HasResult: g.chance(50)})
	case x.state == fsm.StateLeased:
		return g.say(&fsm.Nack{Token: x.token(), DelayMillis: -1, Permanent: true})
	case x.state == fsm.StateDead || x.moved != nil:
		return &fsm.DeadRequeue{Queue: []byte(at.name), IDs: []fsm.ID{x.id}}
	}
	return nil
}

// taskOf names a task.
type taskOf struct{ queue, task string }

// goingOn names a task that a pushed result does not end: it is out or dead.
func (g *Generator) goingOn() (queue, task []byte) {
	var tasks []taskOf
	for _, q := range g.model.queues {
		for _, x := range append(slices.Clone(q.messages), q.dead...) {
			if home := g.model.home(q, x); home != nil && (x.state == fsm.StateLeased || x.state == fsm.StateDead || x.moved != nil) {
				tasks = append(tasks, taskOf{home.name, x.task})
			}
		}
	}
	if len(tasks) == 0 || g.chance(10) {
		return nil, nil
	}
	x := pick(g, tasks...)
	return []byte(x.queue), []byte(x.task)
}

// pushedToken is mostly that of a live lease whose task has a result already.
func (g *Generator) pushedToken() fsm.Token {
	var tokens []fsm.Token
	for _, q := range g.model.queues {
		for _, x := range q.messages {
			if x.state == fsm.StateLeased && g.model.resultOfTask(q, x.task) != nil {
				tokens = append(tokens, x.token())
			}
		}
	}
	if len(tokens) == 0 || g.chance(20) {
		return g.token()
	}
	return pick(g, tokens...)
}

// say notes what a worker says, to be said again.
func (g *Generator) say(op fsm.Op) fsm.Op {
	g.corner.said = keepLast(append(g.corner.said, op), 16)
	return op
}
