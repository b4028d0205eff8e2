package history

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Opinion is what Porcupine makes of a history, message by message. It knows what clients saw and nothing of the log.
type Opinion struct {
	Messages  int // judged
	Left      int // not judged: cancelled, or with results that were pushed
	Undecided int // no order of their operations was found or excluded in time
	Illegal   []Violation
}

// opinionTime bounds the search for one message; a message has some ten operations.
const opinionTime = 30 * time.Second

// step is an operation on one message, as Porcupine gets it.
type step struct {
	op        Op
	class     Class
	code      string
	token     string
	result    string
	status    string
	dead      bool
	anyResult bool // a read that does not tell the result
	once      bool // the queue delivers at most once
}

// job is a message as its clients know it. What happens unseen (an expiry, a death by it, a lease whose answer was lost)
// is allowed at any time, so that only what nothing can explain is illegal.
type job struct {
	phase    phase
	token    string // the greatest that was granted, as far as clients know
	nacked   bool   // by that token
	released bool
	result   string
	once     bool // it was handed over, at most once
}

type phase uint8

const (
	absent phase = iota
	live
	finished
	buried
)

// opinionModel is a job by the contract: section 4 of it, what each operation may be answered.
var opinionModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{job{}} },
	Step: func(s, in, _ any) []any {
		var out []any
		for _, n := range s.(job).next(in.(step)) {
			out = append(out, n)
		}
		return out
	},
}).ToModel()

// next are the states in which an operation may leave the job; none: it cannot have ended so.
func (j job) next(in step) []job {
	if in.class == Unknown { // it took effect or not
		in.class = OK
		in.dead = false
		after := append(j.next(in), j)
		if in.op == Nack || in.op == Release {
			in.dead = true
			after = append(after, j.next(in)...)
		}
		return after
	}
	mine := in.token == j.token
	switch in.op {
	case Enqueue:
		if j.phase == absent {
			return []job{{phase: live}}
		}
	case Lease:
		switch {
		case j.phase != live || in.token <= j.token:
		case in.once: // it is done, and goes out once
			return []job{{phase: finished, token: in.token, once: true}}
		default:
			return []job{{phase: live, token: in.token}}
		}
	case Ack:
		return j.ack(in, mine)
	case Nack, Release:
		return j.giveUp(in, mine)
	case Extend:
		if in.class == Refused || j.phase == live && mine && !j.nacked && !j.released {
			return []job{j}
		}
	case Read, Final:
		switch in.status {
		case succeeded:
			if in.once && j.phase == live { // handed over, to a client that never saw it
				return []job{{phase: finished, once: true}}
			}
			if j.phase == finished && (in.anyResult || in.result == j.result) {
				return []job{j}
			}
		case wasDead:
			if j.phase == live || j.phase == buried {
				j.phase = buried
				return []job{j}
			}
		case "":
			if j.phase == live {
				return []job{j}
			}
		}
	}
	return nil
}

func (j job) ack(in step, mine bool) []job {
	done := j.phase == finished && mine
	switch {
	case in.class == Refused && in.code == "already_exists":
		if done && in.result != j.result {
			return []job{j}
		}
	case in.class == Refused && in.code == "failed_precondition": // it carries what would have come too late
		if j.once {
			return []job{j}
		}
	case in.class == Refused:
		if !done || in.result != j.result {
			return []job{j}
		}
	case done && in.result == j.result:
		return []job{j}
	case j.phase == live && mine && !j.nacked:
		return []job{{phase: finished, token: j.token, result: in.result}}
	}
	return nil
}

// giveUp is a nack or a release.
func (j job) giveUp(in step, mine bool) []job {
	nack := in.op == Nack
	switch {
	case in.class == Refused:
		return []job{j}
	case !mine || j.phase != live && j.phase != buried || nack && j.released || !nack && j.nacked:
		return nil
	case j.phase == buried && !j.nacked && !j.released:
		return nil // it died of something else
	}
	j.nacked, j.released = nack, !nack
	if in.dead {
		j.phase = buried
	}
	return []job{j}
}

// SecondOpinion asks Porcupine of every message whether there is an order of its operations, within their times, that
// explains all answers (G14, without the log as a witness). Time is in proportion to the number of messages.
func SecondOpinion(events []Event) *Opinion {
	jobs := map[string][]porcupine.Operation{}
	shown := map[string][]string{}
	left := map[string]bool{}
	made := map[string]bool{}
	calls := map[uint64]*Event{}
	sent := map[request]bool{}
	seen := map[string]bool{}
	meddled := map[string]bool{}
	became := map[string]string{} // of requeued messages
	once := map[string]bool{}     // queues that deliver at most once
	alone := map[string]bool{}    // queues of which the log alone tells
	taken := map[string]bool{}    // their messages
	add := func(id string, in step, from, to int64) {
		jobs[id] = append(jobs[id], porcupine.Operation{Input: in, Call: from, Return: to})
		shown[id] = append(shown[id], fmt.Sprintf("[%d, %d] %+v", from, to, in))
	}
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case Mark:
			switch e.Note {
			case AtMostOnce:
				once[e.Queue] = true
			case LogAlone:
				alone[e.Queue] = true
			}
		case Call:
			calls[e.Call] = e
			if e.Op == Push || e.Op == Cancel || e.Op == Requeue || e.Op == Edit { // whose id may name another message from then on
				left[e.Message] = true
				if e.Op != Requeue && e.Op != Edit {
					meddled[e.Message] = true
				}
			}
		case Deliver:
			if seen[e.Token] && !once[e.Queue] { // a request that was answered again
				continue
			}
			seen[e.Token] = true
			taken[e.Message] = once[e.Queue]
			left[e.Message] = left[e.Message] || alone[e.Queue]
			from := int64(0)
			if c := calls[e.Call]; c != nil {
				from = c.At
			}
			add(e.Message, step{op: Lease, class: OK, token: e.Token, once: once[e.Queue]}, from, e.At)
		case Return:
			c := calls[e.Call]
			delete(calls, e.Call)
			if c == nil {
				continue
			}
			in := step{op: c.Op, class: e.Class, code: e.Code, token: c.Token, result: c.Result, dead: e.Dead, once: once[c.Queue]}
			to := e.At
			if e.Class == Unknown {
				to = math.MaxInt64
			}
			switch c.Op {
			case Requeue, Edit:
				if e.Class == OK {
					became[c.Message] = e.Message
					left[e.Message] = left[e.Message] || alone[c.Queue] // its result may have been pushed under one of its other ids
				}
			case Enqueue:
				id := request{c.Session, c.Number}
				if e.Class == OK && !e.Duplicate { // be it the answer to a later sending
					taken[e.Message] = in.once
					left[e.Message] = left[e.Message] || alone[c.Queue]
				}
				if e.Class == OK && !e.Duplicate && !sent[id] {
					made[e.Message] = true
					add(e.Message, in, c.At, to)
				}
				sent[id] = true
			case Ack, Nack, Extend, Release:
				if e.Class == Refused && e.Index == 0 {
					continue // at the door: it says nothing of the message
				}
				if e.Duplicate {
					left[messageOf(c.Token)] = true
				}
				add(messageOf(c.Token), in, c.At, to)
			case Read, Final:
				if e.Class == OK {
					in.once = taken[c.Message]
					in.status, in.result, in.anyResult = e.Status, e.Result, c.Note == StatusOnly || c.Op == Final
					add(c.Message, in, c.At, to)
				}
			}
		}
	}
	for _, c := range calls { // never answered
		if c.Op == Ack || c.Op == Nack || c.Op == Release {
			add(messageOf(c.Token), step{op: c.Op, class: Unknown, token: c.Token, result: c.Result}, c.At, math.MaxInt64)
		}
	}
	for id := range meddled { // by an id that it had earlier, too
		for next := became[id]; next != "" && !left[next]; next = became[next] {
			left[next] = true
		}
	}
	o := &Opinion{}
	for id, ops := range jobs {
		if left[id] {
			o.Left++
			continue
		}
		if !made[id] { // its enqueue was sent more than once, or never answered: at some time it was there
			ops = append(ops, porcupine.Operation{Input: step{op: Enqueue, class: OK}, Call: 0, Return: math.MaxInt64})
		}
		o.Messages++
		switch porcupine.CheckOperationsTimeout(opinionModel, ops, opinionTime) {
		case porcupine.Ok:
		case porcupine.Unknown:
			o.Undecided++
		case porcupine.Illegal:
			if len(o.Illegal) < shownViolations {
				o.Illegal = append(o.Illegal, Violation{Guarantee: "G14", What: "no order explains the answers about message " + id, Events: shown[id]})
			}
		}
	}
	slices.SortFunc(o.Illegal, func(a, b Violation) int { return len(a.Events) - len(b.Events) })
	return o
}
