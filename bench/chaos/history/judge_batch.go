package history

import (
	"cmp"
	"fmt"
)

// batch counts the ends of its members, by the contract's rules.
type batch struct {
	id       string
	q        *queue // of the callback
	callback Effect // what it is to be
	sealed   bool
	called   bool
	by       request

	added, open, succeeded, dead, cancelled int
}

// counts are what a callback says of its batch's members.
func (b *batch) counts() string {
	return fmt.Sprintf("%d members: %d succeeded, %d dead, %d cancelled", b.added, b.succeeded, b.dead, b.cancelled)
}

func (j *judge) makeBatch(e *Effect) {
	if j.repeated(e) || e.Code != "" {
		return
	}
	q := j.queues[e.Queue]
	if q == nil || e.Note != "" {
		j.blame("judge", nil, e, "a batch whose callback this checker does not judge: %s", e.Note)
		return
	}
	if j.batches[e.Message] != nil {
		j.blame("G11", nil, e, "batch %s is made twice", e.Message)
		return
	}
	j.batches[e.Message] = &batch{id: e.Message, q: q, callback: *e, by: request{e.Session, e.Number}}
}

func (j *judge) seal(e *Effect) {
	if j.repeated(e) {
		return
	}
	b := j.batches[e.Message]
	switch {
	case b == nil:
		j.verdict("G6", nil, e, "not_found", "there is no such batch")
	case e.Code == "not_found" && b.called: // it need not be kept for ever
	case !j.verdict("G6", nil, e, "", "the batch is there"):
	case b.sealed != e.Duplicate:
		j.blame("G6", nil, e, "batch %s was sealed before: %v; the answer says %v", b.id, b.sealed, e.Duplicate)
	case !b.sealed:
		b.sealed = true
		j.r.count("batch sealed")
		j.ripen(b)
	}
}

// joins says whether an enqueue that names a batch may be, and judges the answer where it may not.
func (j *judge) joins(e *Effect) bool {
	if e.Batch == "" || e.Code == "already_exists" {
		return true
	}
	want, why := "", "the batch is open"
	switch b := j.batches[e.Batch]; {
	case b == nil:
		want, why = "not_found", "there is no such batch"
	case b.sealed && e.Code == "not_found" && b.called:
		return true
	case b.sealed:
		want, why = "failed_precondition", "the batch is sealed"
		j.r.count("member of a sealed batch refused")
	}
	return j.verdict("G6", nil, e, want, why) || e.Code != ""
}

// join makes a new message a member.
func (j *judge) join(m *message, id string) {
	if b := j.batches[id]; b != nil {
		m.batch = b
		b.added++
		b.open++
	}
}

// leaves counts the end of a member, once.
func (j *judge) leaves(m *message) {
	b := m.batch
	if b == nil {
		return
	}
	m.batch = nil
	b.open--
	switch m.state {
	case done:
		b.succeeded++
	case dead:
		b.dead++
	case cancelled, purged:
		b.cancelled++
	}
	j.ripen(b)
}

func (j *judge) ripen(b *batch) {
	if b.sealed && b.open == 0 {
		j.ripe = append(j.ripe, b)
	}
}

// fire makes the callbacks of batches whose last member ended in the step before: the log has said at the entry's beginning which ones come
// in it.
func (j *judge) fire() {
	for _, b := range j.ripe {
		e, ok := j.announced[b.id]
		switch {
		case b.called:
			j.blame("G6", nil, &b.callback, "batch %s is ripe again in entry %d", b.id, j.index)
			continue
		case !ok:
			b.called = true
			j.blame("G1", nil, &b.callback, "the last member of batch %s ended in entry %d, and the log has no callback there", b.id, j.index)
			continue
		}
		delete(j.announced, b.id)
		b.called = true
		j.r.count("batch called back")
		if e.Note != b.counts() {
			j.blame("G6", nil, e, "the callback of batch %s says %q, want %q", b.id, e.Note, b.counts())
		}
		to := j.home(b)
		if e.Body != "" && (e.Body != b.callback.Body || e.Queue != to.name) { // else it was handed over in the same entry
			j.blame("G2", nil, e, "the callback of batch %s is not the one that it was made with", b.id)
		}
		c := b.callback
		c.Op, c.Index, c.Message, c.Session, c.Number, c.Note, c.Body = Callback, e.Index, e.Message, "", 0, "", cmp.Or(e.Body, c.Body)
		if m := j.create(to, &c); m != nil {
			m.callback = b
		}
	}
	j.ripe = j.ripe[:0]
}

// unexplained reports callbacks that the log made of batches that were not ripe.
func (j *judge) unexplained() {
	for id, e := range j.announced {
		switch b := j.batches[id]; {
		case b == nil:
			j.blame("G2", nil, e, "a callback comes of batch %s, which was never made", id)
		case b.called:
			j.blame("G6", nil, e, "batch %s is called back twice", id)
		default:
			b.called = true
			j.blame("G6", nil, e, "batch %s is called back in entry %d, though it is sealed: %v, with %d members open", id, j.index, b.sealed, b.open)
		}
	}
	clear(j.announced)
}
