package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Config settles what a check demands.
type Config struct {
	// Within is how long, in log time, a queue may hand nothing out while a message is ready and workers wait, once faults
	// have ended; 0: 10 s.
	Within time.Duration
	// MayBeVacuous leaves out the demand that the run has met what it is about.
	MayBeVacuous bool
	// Also are counters that the run must have moved beside those that every run must; Without are those of both that it need not.
	Also, Without []string
}

// operation is one call with all that came of it.
type operation struct {
	call     *Event
	ret      *Event
	delivers []*Event
	mode     string
}

// checker holds what clients saw against what the log did.
type checker struct {
	r   *Report
	j   *judge
	cfg Config
	ops []*operation

	byRequest map[request][]*Effect
	byToken   map[tokenUse][]*Effect
	granted   map[string]*Effect       // the effect that made each token
	same      map[request][]*operation // calls under one request id, in order; made when first asked for
}

// tokenUse is an operation on a token in an entry.
type tokenUse struct {
	op    Op
	token string
	index uint64
}

// Check judges a history. It takes time in proportion to n log n for n events and effects.
func Check(h *History, cfg Config) *Report {
	if cfg.Within == 0 {
		cfg.Within = 10 * time.Second
	}
	r := newReport()
	r.Events, r.Effects = len(h.Events), len(h.Effects)
	c := &checker{
		r: r, j: newJudge(r), cfg: cfg,
		byRequest: map[request][]*Effect{}, byToken: map[tokenUse][]*Effect{}, granted: map[string]*Effect{},
	}
	c.marks(h.Events)
	c.j.within = cfg.Within.Milliseconds()
	c.j.run(h.Effects)
	c.index(h.Effects)
	c.pair(h.Events)
	for _, op := range c.ops {
		c.operation(op)
	}
	c.deliveries(h.Events)
	c.phantoms()
	c.realTime(h.Events)
	c.tokens(h.Events)
	c.ends(h.Events)
	c.clocks(h.Events)
	c.finals()
	c.keysAtEnd()
	c.tally()
	if !cfg.MayBeVacuous {
		for _, what := range slices.Concat(required, cfg.Also) {
			if r.Sometimes[what] == 0 && !slices.Contains(cfg.Without, what) {
				r.Vacuous = append(r.Vacuous, what)
			}
		}
	}
	return r
}

// marks takes note of what the harness did.
func (c *checker) marks(es []Event) {
	drained := false
	for i := range es {
		e := &es[i]
		if e.Kind != Mark {
			continue
		}
		switch e.Note {
		case Killed:
			c.r.count("node killed")
			if e.Leader {
				c.r.Kills++
				c.r.count("leader killed")
			}
		case Frozen:
			c.r.count("leader frozen")
		case Down:
			c.r.count("no majority alive")
		case Heal:
			c.j.heal = e.Index
		case Drained:
			c.j.drained, drained = e.Index, true
		case Undrained:
			c.r.blame("G7", "", "the queues did not become empty once faults had ended: "+e.Code, e)
		}
	}
	if !drained {
		c.r.blame("G7", "", "the history does not say that the queues became empty")
	}
}

// index makes the log findable for what clients saw.
func (c *checker) index(fx []Effect) {
	for i := range fx {
		e := &fx[i]
		if e.Session != "" {
			id := request{e.Session, e.Number}
			c.byRequest[id] = append(c.byRequest[id], e)
		}
		if e.Token == "" {
			continue
		}
		if e.Op == Lease {
			if c.granted[e.Token] == nil && e.Code == "" {
				c.granted[e.Token] = e
			}
			continue
		}
		use := tokenUse{e.Op, e.Token, e.Index}
		c.byToken[use] = append(c.byToken[use], e)
	}
}

// pair ties returns and deliveries to their calls.
func (c *checker) pair(es []Event) {
	byCall := map[uint64]*operation{}
	last, success := int64(0), int64(0)
	for i := range es {
		e := &es[i]
		if e.Kind == Return && e.Class == OK {
			c.r.Silence = max(c.r.Silence, e.At-success)
			success = e.At
		}
		if e.At < last {
			c.r.blame("judge", "", "the history is not in the order of its clock", e)
		}
		last = e.At
		switch {
		case e.Kind == Call:
			op := &operation{call: e, mode: c.modeOf(e)}
			if byCall[e.Call] != nil {
				c.r.blame("judge", "", "a call number is used twice", e)
			}
			byCall[e.Call] = op
			c.ops = append(c.ops, op)
		case e.Call == 0:
		case byCall[e.Call] == nil:
			c.r.blame("judge", "", "something came back from a call that was not made", e)
		case e.Kind == Return:
			op := byCall[e.Call]
			if op.ret != nil {
				c.r.blame("G11", op.mode, "a call has two answers", op.ret, e)
				continue
			}
			op.ret = e
			c.r.Operations++
		case e.Kind == Deliver:
			op := byCall[e.Call]
			op.delivers = append(op.delivers, e)
		}
	}
}

func (c *checker) modeOf(e *Event) string {
	if q := c.j.queues[e.Queue]; q != nil {
		return q.opt.Mode
	}
	if m := c.j.all[cmp.Or(e.Message, messageOf(e.Token))]; m != nil {
		return m.q.opt.Mode
	}
	return ""
}

func (op *operation) isDuplicate() bool { return op.ret != nil && op.ret.Duplicate }

func (op *operation) class() Class {
	if op.ret == nil {
		return Unknown // it never came back
	}
	return op.ret.Class
}

// events are those of an operation, to be shown.
func (op *operation) events(more ...any) []any {
	out := []any{op.call}
	if op.ret != nil {
		out = append(out, op.ret)
	}
	return append(out, more...)
}

func (c *checker) blame(g string, op *operation, what string, more ...any) {
	c.r.blame(g, op.mode, what, op.events(more...)...)
}

// operation compares one call's outcome with the log.
func (c *checker) operation(op *operation) {
	if op.class() == OK {
		if t, ok := c.j.times[op.ret.Index]; ok && op.ret.Time != 0 && t != op.ret.Time {
			c.blame("G13", op, fmt.Sprintf("the answer says that T is %d at entry %d, where it is %d", op.ret.Time, op.ret.Index, t))
		}
	}
	switch op.call.Op {
	case Enqueue:
		c.enqueue(op)
	case Lease:
		c.lease(op)
	case Ack, Nack, Extend, Release:
		c.token(op)
	case Push, Cancel, Delete, Purge, Seal, Move, Empty, Drop, Plan, Unplan, Erase:
		c.byID(op)
	case Requeue, Edit, Batch:
		c.named(op)
	case Read:
		c.read(op)
	case Look:
		c.look(op)
	}
}

// applied are the effects of a call's request id.
func (c *checker) applied(op *operation) []*Effect {
	return c.byRequest[request{op.call.Session, op.call.Number}]
}

func (c *checker) enqueue(op *operation) {
	m := c.r.mode(op.mode)
	fx := c.applied(op)
	made := c.j.created[request{op.call.Session, op.call.Number}]
	if made != nil && made.sent != op.call.Body {
		m.Unexpected++
		c.blame("G2", op, "the log has other bytes under this request", fx[0])
		return
	}
	switch op.class() {
	case OK:
		if len(fx) == 0 {
			m.Lost++
			c.blame("G1", op, "the enqueue was confirmed, and the log has nothing of it")
			return
		}
		e := fx[0]
		if e.Code != "" || e.Message != op.ret.Message || e.Duplicate != op.ret.Duplicate {
			c.blame("G11", op, "the answer is not what the log did", e)
			return
		}
		if !at(fx, op.ret.Index) {
			c.blame("G14", op, "the answer names an entry that has nothing of the request", e)
		}
		if !op.ret.Duplicate && c.firstCall(op) == op {
			m.Confirmed++
		}
	case Refused:
		m.Refused++
		c.refused(op, fx)
	default:
		m.Unknown++
		switch {
		case made != nil:
			m.Recovered++
			c.r.count("unknown found applied")
		case len(fx) == 0:
			m.Absent++
			c.r.count("unknown found absent")
		}
	}
}

// at says whether one of the effects is of the entry.
func at(fx []*Effect, index uint64) bool {
	return slices.ContainsFunc(fx, func(e *Effect) bool { return e.Index == index })
}

// refused demands that a refusal changed nothing: it is in the log as that refusal, or not at all.
func (c *checker) refused(op *operation, fx []*Effect) {
	for _, e := range fx {
		if e.Code == op.ret.Code && (op.ret.Index == 0 || at(fx, op.ret.Index)) {
			return
		}
	}
	switch {
	case op.ret.Index != 0 && op.ret.Code != "session_expired":
		c.blame("G11", op, "the refusal says that it is the log's, and the log has none", first1(fx)...)
	case len(fx) > 0 && !slices.ContainsFunc(c.calls(op), (*operation).mayApply):
		c.blame("G11", op, "the request was refused at the door, and the log has it", first1(fx)...)
	}
}

// mayApply says whether a call can be what the log has of its request: it was not refused at the door.
func (op *operation) mayApply() bool { return op.class() != Refused || op.ret.Index != 0 }

func first1(fx []*Effect) []any {
	if len(fx) == 0 {
		return nil
	}
	return []any{fx[0]}
}

func (c *checker) lease(op *operation) {
	if op.class() != OK {
		if op.class() == Refused {
			for _, e := range c.applied(op) {
				if e.Code == "" && e.Token != "" {
					c.blame("G11", op, "the pull was refused, and the log leases to it", e)
				}
			}
		}
		return
	}
	for _, d := range op.delivers {
		e := c.granted[d.Token]
		if e == nil {
			continue // deliveries says so
		}
		if e.Session != op.call.Session || e.Number != op.call.Number {
			c.blame("G3", op, "a pull was answered with a lease of another", d, e)
		}
	}
}

// token compares what became of an operation on a token.
func (c *checker) token(op *operation) {
	use := tokenUse{op.call.Op, op.call.Token, 0}
	if op.class() == Unknown {
		return
	}
	use.index = op.ret.Index
	fx := c.byToken[use]
	if op.class() == Refused {
		if use.index == 0 {
			return // it never reached the log
		}
		if !slices.ContainsFunc(fx, func(e *Effect) bool { return e.Code == op.ret.Code }) {
			c.blame("G11", op, "the refusal says that it is the log's, and the log has none there", first1(fx)...)
		}
		return
	}
	for _, e := range fx {
		if e.Code != "" || e.Duplicate != op.ret.Duplicate {
			continue
		}
		switch op.call.Op {
		case Ack:
			if e.Result == op.call.Result && (e.Chained > 0) == (op.call.Body != "") {
				return
			}
		case Nack:
			if e.Dead == op.ret.Dead && e.Millis == op.ret.Millis {
				return
			}
		default: // the answers have no more to say
			return
		}
	}
	g := "G14"
	if len(fx) > 0 && fx[0].Code == "lease_lost" {
		g = "G4"
	}
	c.blame(g, op, "the answer is success, and the log did nothing of the kind in that entry", first1(fx)...)
}

// What an answer tells beside success.
type tells uint8

const (
	duplicates tells = iota
	counts
)

// tells says whether the answer to an operation tells it.
func (o Op) tells(what tells) bool {
	switch o {
	case Seal, Plan, Unplan, Erase:
		return false
	case Drop:
		return what == duplicates
	}
	return true
}

// byID compares what a client was told of something that it named.
func (c *checker) byID(op *operation) {
	fx := c.applied(op)
	switch op.class() {
	case OK:
		if len(fx) == 0 || fx[0].Code != "" || fx[0].Duplicate != op.ret.Duplicate && op.call.Op.tells(duplicates) ||
			fx[0].Count != op.ret.Count && op.call.Op.tells(counts) || fx[0].Millis != op.ret.Millis || !at(fx, op.ret.Index) {
			c.blame("G14", op, "the answer is success, and the log did nothing of the kind in that entry", first1(fx)...)
		}
	case Refused:
		c.refused(op, fx)
	case Unknown:
		if len(fx) == 0 {
			c.r.count("unknown found absent")
		} else {
			c.r.count("unknown found applied")
		}
	}
}

// named compares what a client was told of something that was made: of the message that a dead letter became, of a batch.
func (c *checker) named(op *operation) {
	fx := c.applied(op)
	switch op.class() {
	case OK:
		switch {
		case len(fx) == 0:
			c.r.mode(op.mode).Lost++
			c.blame("G1", op, "it was confirmed, and the log has nothing of it")
		case fx[0].Code != "" || op.call.Op != Batch && fx[0].Made != op.ret.Message || op.call.Op == Batch && fx[0].Message != op.ret.Message || !at(fx, op.ret.Index):
			c.blame("G11", op, "the answer is not what the log did", fx[0])
		}
	case Refused:
		c.refused(op, fx)
	case Unknown:
		if len(fx) == 0 {
			c.r.count("unknown found absent")
		} else {
			c.r.count("unknown found applied")
		}
	}
}

// deliveries holds every delivery against the log: nothing from nowhere, nothing changed on the way.
func (c *checker) deliveries(es []Event) {
	for i := range es {
		d := &es[i]
		if d.Kind != Deliver {
			continue
		}
		mode := c.r.mode(c.modeOf(d))
		name := c.modeOf(d)
		mode.Delivered++
		m := c.j.all[d.Message]
		if m == nil || m.id != messageOf(d.Token) {
			mode.Unexpected++
			c.r.blame("G2", name, "a message was delivered that the log does not have", d)
			continue
		}
		if c.j.bodyOf(m, d.Token) != d.Body {
			mode.Unexpected++
			c.r.blame("G2", name, "a message was delivered with other bytes than were enqueued", d)
		}
		e := c.granted[d.Token]
		if e == nil {
			c.r.blame("G3", name, "a delivery's lease is not in the log", d)
			continue
		}
		if e.Attempt != d.Attempt {
			c.r.blame("G10", name, "a delivery's attempt is not the log's", d, e)
		}
		if m.q.opt.Once && m.seen > 0 {
			c.r.blame("G6", name, "a message that is delivered at most once came a second time", d)
		}
		m.seen++
	}
}

// tally counts what became of the messages.
func (c *checker) tally() {
	for _, m := range c.j.all {
		n := c.r.mode(m.q.opt.Mode)
		n.Enqueued++
		switch m.state {
		case done:
			n.Done++
		case dead:
			switch {
			case m.next != nil:
				n.Redriven++
			case m.gone != 0:
				n.Deleted++
			default:
				n.Dead++
			}
		case cancelled:
			n.Cancelled++
		case purged:
			n.Purged++
		}
		switch {
		case m.seen > 1:
			n.Duplicated++
		case m.taken && m.seen == 0:
			n.Dropped++
			c.r.count("handed over, at most once, and never seen by a client")
		}
	}
}
