package fsmtest

import "github.com/quorate/quorate/fsm"

// deadIDs picks dead letters of a queue, some of them by the id they had before they were moved, with some that are none.
func (g *Generator) deadIDs(name string) []fsm.ID {
	var ids, dead []fsm.ID
	if q := g.model.queue(name); q != nil {
		for _, x := range q.dead {
			dead = append(dead, x.id)
		}
		for _, x := range q.messages {
			if x.moved != nil {
				dead = append(dead, x.id, x.moved.letter.id)
			}
		}
	}
	for n := g.rng.IntN(4); n >= 0; n-- {
		if len(dead) > 0 && !g.chance(20) {
			ids = append(ids, pick(g, dead...))
		} else {
			ids = append(ids, g.someID())
		}
	}
	return ids
}

// edit draws a dead letter that is requeued with other fields. Those that are not named are filled in as well, since they
// must not matter.
func (g *Generator) edit() *fsm.DeadEdit {
	o := &fsm.DeadEdit{Queue: g.queueName(), Message: g.message()}
	o.ID = g.deadIDs(string(o.Queue))[0]
	for range 1 + g.rng.IntN(3) {
		o.Fields |= 1 << g.rng.IntN(10)
	}
	if g.chance(4) {
		o.Fields = pick(g, 0, allEdits, allEdits+1)
	}
	if !g.chance(10) { // what others know the task by
		o.Message.TaskID, o.Message.HasDedup, o.Message.DedupKey, o.Message.DedupContent = nil, false, [16]byte{}, [16]byte{}
	}
	o.Request = g.request(1, false)
	return o
}

// letterOp draws what makes dead letters and uses them where they were moved to.
func (g *Generator) letterOp() fsm.Op {
	var names []string // dead-letter queues that hold something
	var leased []fsm.ID
	var letters []*message
	for _, q := range g.model.queues {
		has := false
		for _, x := range q.messages {
			if x.moved == nil {
				continue
			}
			has = true
			letters = append(letters, x)
			if x.state == fsm.StateLeased {
				leased = append(leased, x.id)
			}
		}
		if has {
			names = append(names, q.name)
		}
	}
	if len(names) == 0 || g.chance(40) {
		return &fsm.Nack{Token: g.token(), DelayMillis: -1, Permanent: g.chance(70), Error: []byte("dies")}
	}
	name := []byte(pick(g, names...))
	switch g.rng.IntN(10) {
	case 0, 1:
		return &fsm.Lease{Queue: name, Max: int32(1 + g.rng.IntN(3)), MaxBytes: maxLeaseBytes, LeaseMillis: 1000, Worker: []byte("letters")}
	case 2:
		ids := g.deadIDs(string(name))
		if len(leased) > 0 {
			ids = append(ids, pick(g, leased...))
		}
		if g.chance(40) {
			return &fsm.DeadDelete{Queue: name, IDs: ids}
		}
		return &fsm.DeadRequeue{Queue: name, IDs: ids}
	case 3:
		return &fsm.DeadRequeue{Queue: name, IDs: g.deadIDs(string(name))}
	case 4:
		o := g.edit()
		o.Queue, o.ID = name, g.deadIDs(string(name))[0]
		o.Request = fsm.Request{}
		return o
	case 5, 8: // a limit for a dead-letter queue or an origin
		q := g.model.queue(pick(g, string(name), pick(g, letters...).moved.name))
		if q == nil {
			break
		}
		o := &fsm.SetQueue{Name: []byte(q.name), Options: q.options}
		g.changeOption(&o.Options)
		o.Options.MaxDepth = max(1, int64(len(q.messages))+int64(g.rng.IntN(3))-1)
		if g.chance(50) {
			o.Options.MaxDepth, o.Options.MaxBytes = 0, max(1, q.bytes()+int64(g.rng.IntN(40))-10)
		}
		if g.chance(40) {
			o.Options = q.options
			o.Options.MaxDepth, o.Options.MaxBytes = 0, 0
			o.Options.MaxDead, o.Options.DeadOverflow = max(1, int64(len(q.dead))), fsm.DeadRefuse
			if g.chance(50) {
				o.Options.MaxDead, o.Options.MaxResultsBytes = 1000, max(1, q.resultBytes())
			}
		}
		if o.Options.DeadLetterQueue == q.name {
			o.Options.DeadLetterQueue = ""
		}
		return o
	case 7:
		x := pick(g, letters...)
		return &fsm.PushResult{Queue: []byte(x.moved.name), TaskID: []byte(x.task), Result: fsm.Result{Output: []byte("P")}}
	case 6:
		if g.chance(25) {
			return &fsm.DeleteQueue{Name: []byte(pick(g, pick(g, letters...).moved.name, pick(g, g.queues...)))}
		}
	}
	if g.closing != nil && g.chance(40) {
		return g.closing
	}
	o := &fsm.Ack{Token: g.token()}
	if o.HasResult = g.chance(50); o.HasResult {
		o.Result.Output = []byte("R")
	}
	for _, x := range letters {
		if x.id == o.Token.Message && x.token() == o.Token {
			g.closing = o
		}
	}
	return o
}
