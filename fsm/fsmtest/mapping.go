package fsmtest

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/fsm"
)

// Of schemas and mappings the model knows which are taken, and that what was evaluated counts for the mapping that there is alone.

// mappingFaults judges schema and mappings.
func mappingFaults(name string, o fsm.QueueOptions) []fault {
	text := func(s string, most int) bool { return len(s) <= most && utf8.ValidString(s) }
	to := o.MapTo
	return []fault{
		{fsm.FieldSchema, !text(o.Schema, 64<<10)},
		{fsm.FieldMap, !text(o.Map, 4<<10)},
		{fsm.FieldMapTo, !text(to.Expression, 4<<10) || (to.Queue == "") != (to.Expression == "") || to.Queue == name ||
			to.Queue != "" && (!validQueueName(to.Queue) || o.PushURL != "" || o.Delivery == fsm.DeliverAtMostOnce)},
	}
}

// mappingFits says whether a queue may have these options, beside all others.
func (m *Model) mappingFits(name string, o, was fsm.QueueOptions) fsm.Outcome {
	size := func(o fsm.QueueOptions) int {
		return len(o.Schema) + len(o.Map) + len(o.MapTo.Queue) + len(o.MapTo.Expression)
	}
	total := size(o) - size(was)
	for _, q := range m.queues {
		total += size(q.options)
	}
	if size(o) > size(was) && total > 64<<20 {
		return refuse(fsm.Overloaded, fsm.FieldMapping)
	}
	if (o.MapTo.Queue != was.MapTo.Queue || o.DeadLetterQueue != was.DeadLetterQueue) && (m.comesRound(name, o.MapTo.Queue, false, true, nil) || m.comesRound(name, o.DeadLetterQueue, true, false, nil)) {
		return refuse(fsm.FailedPrecondition, fsm.FieldMapTo)
	}
	return fsm.Outcome{}
}

// comesRound says whether a message that comes to a queue, as a dead letter or not, can come from there to queue home by itself; letters: also as
// a dead letter, which dies no further. way is how it came there. Generated runs have fewer queues than the walk that the state makes.
func (m *Model) comesRound(home, at string, died, letters bool, way []string) bool {
	if at == home && at != "" {
		return !died || letters
	}
	q := m.queue(at)
	if q == nil || slices.Contains(way, at) { // through another ring, which cannot be
		return false
	}
	way = append(way[:len(way):len(way)], at)
	return m.comesRound(home, q.options.MapTo.Queue, false, letters, way) || !died && m.comesRound(home, q.options.DeadLetterQueue, true, letters, way)
}

// remap gives a queue's mapping its generation.
func (m *Model) remap(q *queue, was fsm.QueueOptions) {
	switch o := q.options; {
	case o.Map == "" && o.MapTo.Queue == "":
		q.mapping = 0
	case o.Map != was.Map || o.MapTo != was.MapTo:
		q.mapping = m.index
	default:
		m.sometimes("mapping: set anew, and the same")
	}
}

// staleMapping says whether a lease may not be ended by what came of a mapping of this generation.
func (m *Model) staleMapping(q *queue, generation uint64) bool {
	return generation != 0 && generation != q.mapping
}

// mapped draws schema and mappings anew.
func (g *Generator) mapped(o *fsm.QueueOptions) {
	o.Schema = pick(g, "", "true", `{"type":"object"}`)
	if g.chance(1) {
		o.Schema = strings.Repeat("s", 64<<10)
	}
	o.Map = pick(g, "", "body", "body.a", strings.Repeat("m", 4<<10))
	if o.MapTo = (fsm.MapTo{}); g.chance(60) {
		o.MapTo = fsm.MapTo{Queue: pick(g, "dlq", "missing", pick(g, g.queues...), pick(g, g.queues...)), Expression: pick(g, "body", "body.a")}
	}
}

// spoilMapping puts one of them beyond its range.
func (g *Generator) spoilMapping(o *fsm.QueueOptions) {
	switch g.rng.IntN(4) {
	case 0:
		o.Schema = pick(g, "\xff", strings.Repeat("s", 64<<10+1))
	case 1:
		o.Map = pick(g, "\xff", strings.Repeat("m", 4<<10+1))
	case 2:
		o.MapTo = pick(g, fsm.MapTo{Queue: "a"}, fsm.MapTo{Expression: "a"}, fsm.MapTo{Queue: "a b", Expression: "a"}, fsm.MapTo{Queue: "a", Expression: "\xff"})
	case 3:
		if o.PushURL == "" && o.Delivery != fsm.DeliverAtMostOnce {
			o.PushURL = "http://a"
		}
		o.MapTo = fsm.MapTo{Queue: "a", Expression: "b"}
	}
}

// generation draws that of the mapping of the queue which a token's message is in, or one that it is not; mostly none.
func (g *Generator) generation(t fsm.Token) uint64 {
	if !g.chance(35) {
		return 0
	}
	for _, q := range g.model.queues {
		for _, x := range q.messages {
			if x.id == t.Message && q.mapping != 0 && g.chance(85) {
				return q.mapping
			}
		}
	}
	if g.chance(20) {
		return pick(g, 1, g.model.index, 1<<64-1)
	}
	return 0
}
