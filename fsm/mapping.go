package fsm

import (
	"fmt"
	"unicode/utf8"
)

// Of schemas and mappings the state holds the texts, and evaluates none: bodies are judged at the doors, and whoever leads evaluates an
// expression and acks with what comes of it. What the state sees to is that it was the expression as it stands.

// Limits of schemas and mappings. They are part of the log format.
const (
	MaxSchemaBytes     = 64 << 10 // schema
	MaxExpressionBytes = 4 << 10  // map, and the expression of map_to
	// MaxMappingBytes is how many bytes the schemas and mappings of all queues have together; beyond: Overloaded, FieldMapping.
	MaxMappingBytes = 64 << 20
	// MaxMapWalk is how many queues may lie behind one that maps: see mapsRound.
	MaxMapWalk = 64
)

// Mapped says whether a queue with these options has a mapping.
func (o *QueueOptions) Mapped() bool { return o.Map != "" || o.MapTo.Queue != "" }

// mappingBytes is what the texts take.
func (o *QueueOptions) mappingBytes() int64 {
	return int64(len(o.Schema) + len(o.Map) + len(o.MapTo.Queue) + len(o.MapTo.Expression))
}

// validateMapping judges schema and mappings as far as the state does: whether they mean anything is for the door, whose judgement may
// change with the build.
func (o *QueueOptions) validateMapping() (Field, error) {
	bad := func(f Field, format string, args ...any) (Field, error) {
		return f, fmt.Errorf("%w: "+format, append([]any{errOptions}, args...)...)
	}
	text := func(s string, most int) bool { return len(s) <= most && utf8.ValidString(s) }
	switch {
	case !text(o.Schema, MaxSchemaBytes):
		return bad(FieldSchema, "schema of %d bytes, want text of at most %d", len(o.Schema), MaxSchemaBytes)
	case !text(o.Map, MaxExpressionBytes):
		return bad(FieldMap, "map of %d bytes, want text of at most %d", len(o.Map), MaxExpressionBytes)
	case !text(o.MapTo.Expression, MaxExpressionBytes):
		return bad(FieldMapTo, "map_to with an expression of %d bytes, want text of at most %d", len(o.MapTo.Expression), MaxExpressionBytes)
	case (o.MapTo.Queue == "") != (o.MapTo.Expression == ""):
		return bad(FieldMapTo, "map_to with one of queue and expression, want both or none")
	case o.MapTo.Queue == "":
	case !ValidQueueName([]byte(o.MapTo.Queue)):
		return bad(FieldMapTo, "map_to to %.140q, which is no queue name", o.MapTo.Queue)
	case o.PushURL != "":
		return bad(FieldMapTo, "map_to in a queue that is pushed")
	case o.Delivery == DeliverAtMostOnce:
		return bad(FieldMapTo, "map_to in a queue that delivers at most once, where an ack enqueues nothing")
	}
	return FieldNone, nil
}

// sameMapping says whether what is evaluated is the same.
func (o *QueueOptions) sameMapping(p *QueueOptions) bool {
	return o.Map == p.Map && o.MapTo == p.MapTo
}

func (o *QueueOptions) equalMapping(p *QueueOptions) bool {
	return o.Schema == p.Schema && o.sameMapping(p)
}

// Presence bits of schema and mappings.
const (
	mappingSchema = 1 << iota
	mappingMap
	mappingToQueue
	mappingToExpression
	mappingEnd
)

// mappingTexts are the texts in the order of their presence bits.
func (o *QueueOptions) mappingTexts() [4]*string {
	return [4]*string{&o.Schema, &o.Map, &o.MapTo.Queue, &o.MapTo.Expression}
}

func appendMapping(b []byte, o *QueueOptions) []byte {
	texts, f := o.mappingTexts(), uint64(0)
	for i, s := range texts {
		f |= bit(*s != "", 1<<i)
	}
	b = appendUvarint(b, f)
	for _, s := range texts {
		if *s != "" {
			b = append(appendUvarint(b, uint64(len(*s))), *s...)
		}
	}
	return b
}

// mapping reads schema and mappings.
func (d *Decoder) mapping(o *QueueOptions, present bool) {
	o.Schema, o.Map, o.MapTo = "", "", MapTo{}
	if !present {
		return
	}
	f := d.bits(mappingEnd)
	if f == 0 {
		d.fail("%s: schema and mappings are present but none", opNames[d.op])
		return
	}
	for i, s := range o.mappingTexts() {
		if f&(1<<i) != 0 {
			*s = string(d.presentBytes())
		}
	}
}

// Operations that end the lease of a message whose mapping was evaluated: those of opAck and opNack, and the mapping's generation.
const (
	opAckMapped  uint8 = 24
	opNackMapped uint8 = 25
)

func (o *Ack) opNumber() uint8 {
	if o.Mapping != 0 {
		return opAckMapped
	}
	return opAck
}

func (o *Nack) opNumber() uint8 {
	if o.Mapping != 0 {
		return opNackMapped
	}
	return opNack
}

// generation reads the generation of a mapping.
func (d *Decoder) generation() uint64 {
	g := d.uvarint()
	if g == 0 {
		d.fail("%s: a generation that is present is zero", opNames[d.op])
	}
	return g
}

// staleMapping refuses what was evaluated by a mapping that is not the queue's any more. Generation 0: nothing was evaluated.
func staleMapping(q *queue, generation uint64) bool {
	return generation != 0 && generation != q.meta.generation
}

// mappingFits says whether a queue may get these options: whether there is room for their texts, and whether what is mapped would not
// come round. was are the queue's options, or none where it is yet to be made.
func (s *State) mappingFits(name []byte, o, was *QueueOptions) Outcome {
	if more := o.mappingBytes() - was.mappingBytes(); more > 0 && s.mappingBytes+more > s.lim.mappingBytes {
		return refuse(Overloaded, FieldMapping, s.lim.mappingBytes)
	}
	if o.MapTo.Queue == was.MapTo.Queue && o.DeadLetterQueue == was.DeadLetterQueue {
		return Outcome{} // it was judged when it was set, and what other queues have set since then too
	}
	return s.mapsRound(name, o)
}

// A message goes from queue to queue without anybody's doing by map_to, and by dead_letter_queue where it dies. Were there a way round,
// it would go on for ever, and where a mapping makes two of one, for ever more. So an option that would close a ring with a map_to in it
// is refused, whatever the order in which the queues are made. Rings of dead_letter_queue alone are fine: what dies in a dead-letter
// queue stays in it, so no two such steps follow each other.

// mapStep is a queue that a message can come to; died says that it would come as a dead letter.
type mapStep struct {
	queue string
	died  bool
}

// mapsRound refuses options of a queue that would have its messages come back to it: by map_to in any way, by a death not as a dead letter,
// which dies no further. It looks at MaxMapWalk queues behind it each way: where there are more, it refuses too, so that what it allows has no
// ring.
func (s *State) mapsRound(name []byte, o *QueueOptions) Outcome {
	if o.MapTo.Queue == "" && (o.DeadLetterQueue == "" || s.mappers == 0) {
		return Outcome{}
	}
	if out := s.walkMaps(string(name), mapStep{o.MapTo.Queue, false}); out.Code != OK {
		return out
	}
	return s.walkMaps(string(name), mapStep{o.DeadLetterQueue, true})
}

// walkMaps looks for a way back to a queue that begins with a step.
func (s *State) walkMaps(home string, first mapStep) Outcome {
	way := make([]mapStep, 0, 4)
	step := func(to mapStep) bool {
		for _, w := range way {
			if w.queue == to.queue && (w.died == to.died || !w.died) {
				return true
			}
		}
		if to.queue != "" {
			way = append(way, to)
		}
		return len(way) <= MaxMapWalk
	}
	short := step(first)
	for i := 0; i < len(way) && short; i++ {
		w := way[i]
		if w.queue == home {
			if first.died && w.died {
				continue
			}
			return refuse(FailedPrecondition, FieldMapTo, 0)
		}
		if q := s.findQueue([]byte(w.queue)); q != nil {
			o := &q.meta.options
			short = step(mapStep{o.MapTo.Queue, false}) && (w.died || step(mapStep{o.DeadLetterQueue, true}))
		}
	}
	if !short {
		return refuse(FailedPrecondition, FieldMapTo, MaxMapWalk)
	}
	return Outcome{}
}

// countMapping counts a queue's texts in (1) or out (-1), and notes that schemas are not what they were.
func (s *State) countMapping(m *queueMeta, by int64) {
	s.mappingBytes += by * m.options.mappingBytes()
	if m.options.MapTo.Queue != "" {
		s.mappers += by
	}
	if m.options.Schema != "" {
		s.schemaChanges++
	}
}

// SchemaChanges rises whenever a queue with a schema comes, goes, or is set anew, and is 0 as long as there has been none. It is local:
// a restored state begins anew.
func (s *State) SchemaChanges() uint64 { return s.schemaChanges }

// MappingGeneration tells a queue's mapping from those it had before: the log index of the entry that has set it; 0: it has none. An ack or
// nack with another one is refused.
func (s *State) MappingGeneration(queue uint32) uint64 {
	if q := s.byNumber(queue); q != nil {
		return q.meta.generation
	}
	return 0
}

// EachMapTo calls f with name, options and generation of the queues that have map_to, in the order of names, until it returns false or
// most queues, mapped or not, have been looked at. next is the cursor for more, "" at the end.
func (s *State) EachMapTo(after string, most int, f func(name string, o *QueueOptions, generation uint64) bool) (next string) {
	if s.mappers == 0 {
		return ""
	}
	return s.eachQueue(after, most, func(q *queue) bool {
		return q.meta.options.MapTo.Queue == "" || f(q.meta.name, &q.meta.options, q.meta.generation)
	})
}

// EachSchema is as EachMapTo for those that have a schema.
func (s *State) EachSchema(after string, most int, f func(name, schema string) bool) (next string) {
	return s.eachQueue(after, most, func(q *queue) bool {
		return q.meta.options.Schema == "" || f(q.meta.name, q.meta.options.Schema)
	})
}

// eachQueue calls f with queues in the order of names until it returns false or most have been looked at.
func (s *State) eachQueue(after string, most int, f func(q *queue) bool) (next string) {
	s.Queues(after, func(n uint32, name string) bool {
		if most--; most < 0 {
			next = after
			return false
		}
		after = name
		return f(s.byNumber(n))
	})
	return next
}

// sectionMapping are schemas and mappings of queues that have any, by number. Where none has, there is no such section: a snapshot is
// then what it was before there were any.
const sectionMapping uint8 = 51

func (v *View) writeMapping(f *frameWriter, queues []int32) {
	begun := false
	for _, slot := range queues {
		m := v.metas[slot]
		o := &m.options
		if o.mappingBytes() == 0 {
			continue
		}
		if !begun {
			f.section(sectionMapping)
			begun = true
		}
		f.record()
		f.uvarint(uint64(m.number))
		for _, s := range o.mappingTexts() {
			f.text(*s)
		}
		f.uvarint(m.generation)
	}
}

func (rs *restorer) mapping() {
	s, f := rs.s, rs.f
	var last uint32
	for f.more() {
		q := rs.queue()
		var o QueueOptions
		o.Schema, o.Map = f.str(MaxSchemaBytes), f.str(MaxExpressionBytes)
		o.MapTo.Queue, o.MapTo.Expression = f.str(MaxQueueName), f.str(MaxExpressionBytes)
		generation := f.uvarint()
		if f.err() != nil {
			return
		}
		to := &q.meta.options
		to.Schema, to.Map, to.MapTo = o.Schema, o.Map, o.MapTo
		_, err := to.validateMapping()
		switch {
		case q.meta.number <= last:
			f.fail("mapping of queue %d after %d", q.meta.number, last)
			return
		case err != nil:
			f.fail("queue %q: %v", q.meta.name, err)
			return
		case o.mappingBytes() == 0:
			f.fail("queue %q has a mapping that is none", q.meta.name)
			return
		case (generation != 0) != o.Mapped() || generation > s.index:
			f.fail("queue %q has a mapping of generation %d at index %d", q.meta.name, generation, s.index)
			return
		}
		last = q.meta.number
		q.meta.generation = generation
		s.countMapping(q.meta, 1)
	}
	if f.err() != nil {
		return
	}
	if last == 0 {
		f.fail("mappings of no queue")
	}
	for _, slot := range s.names {
		m := s.queues[slot].meta
		if o := s.mapsRound([]byte(m.name), &m.options); o.Code != OK && o.Limit == 0 {
			f.fail("what is in queue %q is mapped in a ring", m.name)
			return
		}
	}
}

// mapping proves the counts of schemas and mappings, and that nothing is mapped in a ring.
func (c *checker) mapping() {
	var bytes, mappers int64
	for _, slot := range c.s.names {
		m := c.s.queues[slot].meta
		bytes += m.options.mappingBytes()
		if m.options.MapTo.Queue != "" {
			mappers++
		}
		if (m.generation != 0) != m.options.Mapped() || m.generation > c.s.index {
			c.bad("queue %q has a mapping of generation %d at index %d", m.name, m.generation, c.s.index)
		}
		if o := c.s.mapsRound([]byte(m.name), &m.options); o.Code != OK && o.Limit == 0 {
			c.bad("what is in queue %q is mapped in a ring", m.name)
		}
	}
	if bytes != c.s.mappingBytes || mappers != c.s.mappers {
		c.bad("%d bytes of mappings and %d queues that map, counted %d and %d", bytes, mappers, c.s.mappingBytes, c.s.mappers)
	}
}
