package history

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quorate/quorate/fsm"
)

var storiesFlag = flag.Int("stories", 60, "how many stories TestRandomStories tells")

// ramble lets random things happen on the queues, about so many.
func (s *story) ramble(rng *rand.Rand, steps int) {
	queues := []string{"u", "f", "k", "o", "p", "r", "g", "w", "z", "e"}
	var tokens []string
	token := func() string { // a recent one, be it good or not
		if len(tokens) == 0 {
			return ""
		}
		last := tokens[max(0, len(tokens)-6):]
		return last[rng.IntN(len(last))]
	}
	id := func() string {
		if len(s.ids) == 0 {
			return ""
		}
		last := s.ids[max(0, len(s.ids)-6):]
		return last[rng.IntN(len(last))]
	}
	open := "" // the batch at hand
	type sent struct {
		queue string
		m     fsm.Message
		r     fsm.Request
		at    int64
	}
	var requests, keyed []sent // recent ones; those with a dedup key
	for n := range steps {
		q := queues[rng.IntN(len(queues))]
		switch p := rng.IntN(115); {
		case p >= 100:
			s.meddle(rng, q, id(), messageOf(token()))
		case p < 22:
			one := sent{q, s.message(rng, q, fmt.Sprintf("%s %d", q, n)), s.request(), s.now}
			s.send(q, one.m, one.r, true, true)
			requests = append(requests, one)
			if one.m.HasDedup {
				keyed = append(keyed, one)
			}
		case p < 24: // the same request once more
			if len(requests) > 0 {
				one := requests[max(0, len(requests)-1-rng.IntN(5))]
				s.send(one.queue, one.m, one.r, true, true)
			}
		case p < 25: // the same key at the edge of its window
			if len(keyed) > 0 {
				one := keyed[len(keyed)-1]
				if edge := one.at + 2000 + rng.Int64N(3) - 1; edge > s.now {
					s.pass(edge - s.now)
				}
				s.enqueue(one.queue, one.m)
			}
		case p < 50:
			tokens = append(tokens, s.lease(q, 1+rng.Int32N(3))...)
		case p < 60:
			if t := token(); t != "" && rng.IntN(4) == 0 {
				s.ackThen(t, "one", q, "carried by "+t)
			} else if t != "" {
				s.ack(t, []string{"one", "another", ""}[rng.IntN(3)])
			}
		case p < 70:
			if t := token(); t != "" {
				s.nack(t, rng.IntN(10) == 0)
			}
		case p < 77:
			if t := token(); t != "" {
				s.release(t)
			}
		case p < 81:
			if t := token(); t != "" {
				s.extend(t)
			}
		case p < 83:
			if i := id(); i != "" {
				s.cancel(q, i)
			}
		case p < 85:
			if i := id(); i != "" {
				s.push("", i, "pushed")
			}
		case p < 87:
			if i := id(); i != "" {
				s.read(Read, "", i)
			}
		case p < 88: // a batch is made, gets a member, is sealed
			if open == "" {
				open = s.batch(queues[rng.IntN(3)], fmt.Sprint("callback ", n))
			}
			s.member(q, open, s.message(rng, q, fmt.Sprintf("%s member %d", q, n)))
			if rng.IntN(3) == 0 {
				s.seal(open)
				if rng.IntN(2) == 0 {
					open = ""
				}
			}
		case p < 91: // a dead letter, be it one or not
			if i := id(); i != "" {
				s.requeue(q, i)
			}
		case p < 92:
			if i := id(); i != "" {
				s.deleteDead(q, i)
			}
		case p < 93:
			if rng.IntN(4) == 0 {
				s.purgeDead(q)
			}
		case p < 97:
			s.pass(rng.Int64N(120))
		default:
			s.pass(rng.Int64N(2500))
		}
	}
	for n := range int64(1000) { // drain
		s.pass(400 + 100*n)
		left := false
		for _, q := range queues {
			for _, t := range s.lease(q, 1000) {
				s.ack(t, "drained")
			}
		}
		for _, q := range queues { // once all are acked: the last member of a batch brings another message
			n, _ := s.st.QueueNumber([]byte(q))
			st := s.st.Stats(n)
			left = left || st.Ready+st.Leased+st.Scheduled+st.Retrying > 0
		}
		if !left {
			return
		}
	}
	s.t.Error("the queues do not become empty")
}

// meddle moves, purges, deletes, edits and looks, at a message or at one that was leased.
func (s *story) meddle(rng *rand.Rand, q, id, leased string) {
	if leased != "" && (id == "" || rng.IntN(2) == 0) {
		id = leased
	}
	key := func() []string { return []string{"k", fmt.Sprint(rng.IntN(4))} }
	switch p := rng.IntN(15); {
	case p < 5:
		if id == "" {
			return
		}
		op := fsm.Reschedule{When: fsm.AfterDelay, Time: rng.Int64N(500)}
		switch rng.IntN(4) {
		case 0:
			op.MaxWaitMillis = 1 + rng.Int64N(1000)
		case 1:
			op = fsm.Reschedule{When: fsm.AtTime, Time: s.now + rng.Int64N(800) - 200}
		case 2:
			op = fsm.Reschedule{}
		}
		body := ""
		if op.When == fsm.KeepTime || rng.IntN(3) == 0 {
			body = fmt.Sprint("replaced at ", s.index)
		}
		s.move(id, op, body)
	case p < 7:
		s.purge(q)
	case p < 8:
		s.drop("e")
		s.queue("e", fsm.OrderPerKey)
	case p < 10:
		if id == "" {
			return
		}
		m := s.message(rng, "u", fmt.Sprint("edited at ", s.index))
		m.HasDedup, m.Keys = false, nil
		fields := fsm.EditFields(1) << rng.IntN(10)
		if q == "f" || q == "k" || q == "e" || q == "p" {
			fields &^= fsm.EditPriority
		}
		if fields &^= fsm.EditHeaders | fsm.EditKind | fsm.EditContentType; fields != 0 {
			s.edit(q, id, fields, m)
		}
	case p < 12:
		if id != "" {
			s.requeue("z", id)
		}
	case p < 13:
		if id != "" {
			s.deleteDead("z", id)
		}
	case p < 14:
		s.erase(key()...)
	default:
		s.look(key()...)
	}
}

func (s *story) message(rng *rand.Rand, q, body string) fsm.Message {
	m := text(body)
	if q == "g" || q == "w" || q == "z" {
		m.Priority = uint8(rng.IntN(10))
		m.Key = []byte{'a' + byte(rng.IntN(3))}
	} else if q == "u" || q == "o" {
		m.Priority = uint8(rng.IntN(10))
	} else if rng.IntN(3) > 0 {
		m.Key = []byte{'a' + byte(rng.IntN(3))}
	}
	switch rng.IntN(9) {
	case 8:
		m.Keys = [][]byte{fsm.AppendKVKey(nil, "k", fmt.Sprint(rng.IntN(4)))}
	case 0:
		m = dedup(fmt.Sprint("same ", rng.IntN(3)), fmt.Sprint("key ", rng.IntN(2)))
	case 1:
		m.DelayMillis = rng.Int64N(800)
	case 2:
		m.TTLMillis = 1 + rng.Int64N(1500)
	case 3:
		m.TimeoutMillis = 1 + rng.Int64N(1200)
	case 4:
		m.Retry = fsm.RetryPolicy{Kind: fsm.RetryExponential, InitialMillis: rng.Int64N(200), MaxAttempts: 1 + rng.Int32N(4), JitterMillis: rng.Int64N(50)}
	}
	return m
}

// What the state machine does at random is what the judge and Porcupine expect of it.
func TestRandomStories(t *testing.T) {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (repeat with -seed)", seed)
	for n := range uint64(*storiesFlag) {
		// A test of its own: what a story holds, off the heap too, is given back when it ends.
		t.Run(fmt.Sprint(seed+n), func(t *testing.T) {
			s := tell(t)
			s.queue("u", fsm.OrderUnordered)
			s.queue("f", fsm.OrderFIFO)
			s.queue("k", fsm.OrderPerKey)
			s.onceQueue("o", fsm.OrderUnordered)
			s.onceQueue("p", fsm.OrderPerKey)
			s.buriedQueue("w", "z")
			s.event(Event{Kind: Mark, Note: LogAlone, Queue: "e"})
			s.queue("e", fsm.OrderPerKey)
			s.keyRatedQueue("g", 1+rand.New(rand.NewPCG(seed+n, 3)).Int64N(20_000), int64(n%3))
			s.looks = append(s.looks, func() {
				for i := range 4 {
					s.look("k", fmt.Sprint(i))
				}
			})
			s.ratedQueue("r", 1+rand.New(rand.NewPCG(seed+n, 2)).Int64N(20_000), int64(n%4))
			s.ramble(rand.New(rand.NewPCG(seed+n, 1)), 400)
			h := s.history()
			r := Check(h, Config{MayBeVacuous: true})
			o := SecondOpinion(h.Events)
			if r.Broken() > 0 || len(o.Illegal) > 0 || o.Undecided > 0 {
				t.Errorf("%d violations, %d undecided\n%s\n%+v", r.Broken(), o.Undecided, report(t, r), o.Illegal)
			}
		})
		if t.Failed() {
			return
		}
	}
}
