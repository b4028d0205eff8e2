package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func (r *rig) putKeyed(key string, priority uint8, bodies ...string) (ids []ID) {
	r.t.Helper()
	op := &Enqueue{Queue: []byte("q"), AutoCreate: true}
	for _, b := range bodies {
		op.Messages = append(op.Messages, Message{Key: []byte(key), Body: []byte(b), Priority: priority})
	}
	for _, o := range r.apply(op) {
		if o.Code != OK {
			r.t.Fatalf("enqueue: %+v", o)
		}
		ids = append(ids, o.ID)
	}
	return ids
}

// served leases up to n and says which bodies came, in order.
func (r *rig) served(n int32) string {
	r.t.Helper()
	r.ok(&Lease{Queue: []byte("q"), Consumer: someone, Worker: []byte("w"), Max: n, LeaseMillis: 600_000})
	var bodies []string
	var d Delivery
	for _, l := range r.fx.Leases {
		r.s.Deliver(l, &d)
		bodies = append(bodies, string(d.Body))
	}
	return strings.Join(bodies, " ")
}

func (r *rig) set(o QueueOptions) {
	r.t.Helper()
	if o.Retry.Kind == RetryDefault {
		o.Retry = RetryPolicy{Kind: RetryFixed, InitialMillis: 100, MaxAttempts: 3}
	}
	r.ok(&SetQueue{Name: []byte("q"), Options: o})
}

// names are so many bodies that begin with a letter.
func names(letter string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d", letter, i+1))
	}
	return all
}

// TestInFlightPerKey holds a key to its limit whatever way a lease ends, and nobody else to it.
func TestInFlightPerKey(t *testing.T) {
	r := limited(t, QueueOptions{MaxInFlightPerKey: 2})
	r.putKeyed("a", 4, names("a", 6)...)
	r.putKeyed("b", 4, "b1")
	r.putKeyed("", 4, "x1", "x2", "x3")
	must(t, "two of a, and the others", r.served(99), "a1 a2 b1 x1 x2 x3")
	must(t, "parked", r.stats().Parked, 4)
	must(t, "ready", r.stats().Ready, 4)
	must(t, "leasable", r.leasable(), 0)
	var a []Token
	for _, l := range r.fx.Leases[:2] {
		a = append(a, l.Token)
	}
	r.ok(&Ack{Token: a[0]})
	must(t, "told", fmt.Sprint(r.fx.Ready), "[1]")
	must(t, "leasable", r.leasable(), 1)
	must(t, "after an ack", r.served(99), "a3")
	r.ok(&Release{Token: a[1]})
	must(t, "after a release, at its old place", r.served(99), "a2")
	r.ok(&Nack{Token: r.fx.Leases[0].Token, DelayMillis: 5000})
	must(t, "after a nack", r.served(99), "a4")
	r.ok(&Cancel{TaskID: []byte(r.fx.Leases[0].Token.Message.String())})
	must(t, "a cancelled one counts while it is out", r.served(99), "")
	r.everywhere()
	r.tick(600_001) // all leases run out
	must(t, "after expiry", r.served(99), "a5 a6")
	r.ok(&PurgeQueue{Name: []byte("q")})
	r.putKeyed("a", 4, "a7")
	must(t, "what is out at a purge counts", r.served(99), "")
	must(t, "parked", r.stats().Parked, 1)
	r.everywhere()
	r.tick(600_001)
	must(t, "until it ends", r.served(1), "a7")
}

// TestFairTurns is the order that deficit round robin gives, to the message.
func TestFairTurns(t *testing.T) {
	all := func(r *rig) {
		r.putKeyed("a", 4, names("a", 7)...)
		r.putKeyed("b", 4, names("b", 3)...)
		r.putKeyed("", 4, names("x", 2)...)
		r.putKeyed("c", 4, "c1")
	}
	for _, c := range []struct {
		name    string
		weights []FairWeight
		want    string
	}{
		{"one each", nil, "a1 b1 x1 c1 a2 b2 x2 a3 b3 a4 a5 a6 a7"},
		{"three for a", []FairWeight{{"a", 3}}, "a1 a2 a3 b1 x1 c1 a4 a5 a6 b2 x2 a7 b3"},
		{"two for b", []FairWeight{{"b", 2}, {"z", 9}}, "a1 b1 b2 x1 c1 a2 b3 x2 a3 a4 a5 a6 a7"},
	} {
		for _, batch := range []int32{1, 2, 5, 99} {
			t.Run(fmt.Sprintf("%s, by %d", c.name, batch), func(t *testing.T) {
				r := limited(t, QueueOptions{FairBy: FairByKey, FairWeights: c.weights})
				all(r)
				var got []string
				for {
					s := r.served(batch)
					if s == "" {
						break
					}
					got = append(got, s)
				}
				must(t, "order", strings.Join(got, " "), c.want)
				r.everywhere()
			})
		}
	}
	r := limited(t, QueueOptions{FairBy: FairByKey, FairWeights: []FairWeight{{"a", 3}}})
	all(r)
	must(t, "begins", r.served(2), "a1 a2")
	r.putKeyed("d", 9, "D1", "D2")
	r.putKeyed("a", 9, "A1")
	must(t, "priority first, in turns of its own, and the lower turn goes on", r.served(5), "D1 A1 D2 a3 b1")
	r.putKeyed("e", 4, "e1")
	must(t, "who comes anew is last", r.served(6), "x1 c1 a4 a5 a6 b2")
	must(t, "in its turn", r.served(2), "e1 x2")
	r.ok(&Release{Token: r.fx.Leases[1].Token})
	r.putKeyed("f", 4, "f1")
	must(t, "a released one comes back as one that comes anew, if its flow was empty", r.served(9), "a7 b3 x2 f1")
	r.everywhere()
}

// TestRatePerKey: each key has its own bucket, one that is held costs nobody anything, and those that time opens come in order.
func TestRatePerKey(t *testing.T) {
	r := limited(t, QueueOptions{RatePerKeyMilli: 10_000, BurstPerKey: 2, FairBy: FairByKey})
	r.putKeyed("a", 4, names("a", 5)...)
	r.putKeyed("", 4, names("x", 4)...)
	must(t, "two of a", r.served(99), "a1 x1 a2 x2 x3 x4")
	must(t, "parked", r.stats().Parked, 3)
	must(t, "debts", r.stats().KeyDebts, 1)
	must(t, "outlook", r.s.Outlook(r.ref("q"), r.now), Outlook{Most: 1<<63 - 1, Next: r.now + 100})
	must(t, "outlook ahead", r.s.Outlook(r.ref("q"), r.now+100), Outlook{Ready: 1, Most: 1<<63 - 1})
	r.tick(30)
	r.putKeyed("b", 4, names("b", 5)...)
	must(t, "two of b", r.served(99), "b1 b2")
	r.tick(69)
	must(t, "a millisecond early", r.served(99), "")
	r.tick(1)
	r.putKeyed("c", 4, "c1")
	must(t, "c was there before time opened a", r.served(99), "c1 a3")
	r.tick(100)
	must(t, "both, in the order of their time", r.served(99), "b3 a4")
	r.everywhere()
	r.tick(10_000)
	must(t, "all in time", r.served(99), "b4 a5 b5")
	must(t, "a key that is only in debt is remembered", r.stats().KeyDebts, 2)
	r.putKeyed("b", 4, "b6", "b7", "b8")
	must(t, "and held to it", r.served(99), "")
	r.tick(5000)
	r.tick(0)
	must(t, "until it is paid", r.stats().KeyDebts, 0)
	must(t, "opened by time, and then two at once", r.served(99), "b6 b7")
	r.everywhere()
	// Held until the same instant: by key.
	r.putKeyed("d", 4, names("d", 3)...)
	r.putKeyed("c", 4, names("c", 3)...)
	must(t, "four", r.served(99), "d1 c1 d2 c2")
	r.tick(100)
	must(t, "b's turn is the same", r.served(99), "b8 c3 d3")
	r.everywhere()
}

// TestKeysOfOrderedQueue: in a per_key queue a key's messages still go out one after the other, and rates and turns of keys
// choose among those that may.
func TestKeysOfOrderedQueue(t *testing.T) {
	r := limited(t, QueueOptions{Ordering: OrderPerKey, RatePerKeyMilli: 10_000, BurstPerKey: 2, FairBy: FairByKey})
	r.putKeyed("a", 4, names("a", 4)...)
	r.putKeyed("", 4, "x1", "x2")
	r.putKeyed("b", 4, "b1", "b2")
	must(t, "one of each, and of no key as many as there are", r.served(99), "a1 x1 b1 x2")
	a, b := r.fx.Leases[0].Token, r.fx.Leases[2].Token
	must(t, "behind their own", r.stats().Blocked, 4)
	r.ok(&Ack{Token: a})
	must(t, "the next one of a", r.served(99), "a2")
	r.ok(&Ack{Token: r.fx.Leases[0].Token})
	must(t, "whose rate holds it now", r.served(99), "")
	must(t, "parked", r.stats().Parked, 1)
	must(t, "blocked", r.stats().Blocked, 2)
	r.ok(&Nack{Token: b, DelayMillis: 50})
	r.tick(50)
	must(t, "the retry of b holds its lane, and its rate lets it", r.served(99), "b1")
	r.everywhere()
	r.tick(50)
	must(t, "a in its time", r.served(99), "a3")
	r.ok(&Release{Token: r.fx.Leases[0].Token})
	must(t, "what comes back pays nothing back", r.served(99), "")
	r.tick(100)
	must(t, "and keeps its place", r.served(99), "a3")
	r.everywhere()
}

// TestKeyOptionsChange: switched on, changed and off, options apply at once to all that waits.
func TestKeyOptionsChange(t *testing.T) {
	r := limited(t, QueueOptions{})
	r.putKeyed("a", 4, names("a", 4)...)
	r.putKeyed("b", 4, names("b", 4)...)
	r.putKeyed("c", 9, "C1", "C2")
	must(t, "by priority and place", r.served(3), "C1 C2 a1")
	ts := []Token{r.fx.Leases[1].Token, r.fx.Leases[2].Token}
	r.ok(&Release{Token: ts[0]})
	r.set(QueueOptions{MaxInFlightPerKey: 1})
	must(t, "told", fmt.Sprint(r.fx.Ready), "[1]")
	must(t, "what is out counts", r.served(99), "b1")
	must(t, "parked", r.stats().Parked, 3+3+1)
	r.everywhere()
	r.set(QueueOptions{MaxInFlightPerKey: 2})
	must(t, "a higher limit opens", r.served(2), "C2 a2")
	r.set(QueueOptions{MaxInFlightPerKey: 2, FairBy: FairByKey})
	must(t, "in turns of one now", r.served(1), "b2")
	r.set(QueueOptions{FairBy: FairByKey})
	must(t, "all open, by their first messages", r.served(3), "a3 b3 a4")
	r.set(QueueOptions{})
	must(t, "of keys nothing is left", r.s.Memory().Keys+r.s.Memory().Flows, 0)
	must(t, "by place again", r.served(9), "b4")
	r.everywhere()

	// The pass keeps places, also of what came back.
	r = limited(t, QueueOptions{MaxInFlightPerKey: 9})
	r.putKeyed("a", 4, names("a", 5)...)
	r.putKeyed("b", 4, names("b", 2)...)
	r.served(4)
	r.ok(&Release{Token: r.fx.Leases[0].Token})
	r.set(QueueOptions{})
	must(t, "off", r.served(1), "a1")
	r.everywhere()
}

// TestKeysComeBack: any number of one key that come back, in any order, are served at their old places.
func TestKeysComeBack(t *testing.T) {
	for _, o := range []QueueOptions{{MaxInFlightPerKey: 100}, {FairBy: FairByKey}} {
		r := limited(t, o)
		r.putKeyed("a", 4, names("a", 40)...)
		r.served(30)
		ts := make([]Token, 0, 30)
		for _, l := range r.fx.Leases {
			ts = append(ts, l.Token)
		}
		for i := range 30 { // 7 is prime to 30
			r.ok(&Release{Token: ts[i*7%30]})
		}
		r.ok(&Cancel{TaskID: []byte(ts[13].Message.String())})
		want := names("a", 40)
		want = slices.Delete(want, 13, 14)
		must(t, "some", r.served(9), strings.Join(want[:9], " "))
		r.everywhere()
		o.FairBy ^= 1
		r.set(o)
		must(t, "the others", r.served(99), strings.Join(want[9:], " "))
		r.everywhere()
	}
}

// TestKeysLeaveNothing: when messages, leases and debts of a key are over, so is the memory of it; also after purges and
// deletions, whose records go a bounded number an entry.
func TestKeysLeaveNothing(t *testing.T) {
	for _, how := range []string{"acked", "purged", "deleted", "switched off"} {
		t.Run(how, func(t *testing.T) {
			r := limited(t, QueueOptions{MaxInFlightPerKey: 2, RatePerKeyMilli: 1000, BurstPerKey: 5, FairBy: FairByKey})
			r.quiet, r.s.lim.garbage = true, 100
			for i := range 500 {
				r.putKeyed(fmt.Sprint("key", i), 4, "1", "2", "3")
			}
			r.ok(&Lease{Queue: []byte("q"), Consumer: someone, Max: 700, LeaseMillis: 1000})
			leases := append([]Leased(nil), r.fx.Leases...)
			for _, l := range leases[:300] {
				r.ok(&Release{Token: l.Token})
			}
			if m := r.s.Memory(); m.Keys != 500 || m.Flows < 400 || r.stats().KeyDebts != 500 {
				t.Fatalf("%+v, %d debts", m, r.stats().KeyDebts)
			}
			switch how {
			case "acked":
				for r.stats().Ready+r.stats().Leased+r.stats().Retrying > 0 {
					r.tick(1000)
					r.ok(&Lease{Queue: []byte("q"), Consumer: someone, Max: 1000})
					for _, l := range append([]Leased(nil), r.fx.Leases...) {
						r.apply(&Ack{Token: l.Token})
					}
				}
			case "purged":
				r.ok(&PurgeQueue{Name: []byte("q")})
				must(t, "keys of what is out, and of debts", r.s.Memory().Keys, 500)
				r.set(QueueOptions{MaxInFlightPerKey: 1}) // debts are forgotten
				r.ok(&PurgeQueue{Name: []byte("q")})
				for r.stats().Leased+r.stats().Retrying > 0 {
					r.tick(10_000)
				}
				r.ok(&PurgeQueue{Name: []byte("q")})
				r.tick(10_000)
				r.ok(&PurgeQueue{Name: []byte("q")})
			case "deleted":
				r.ok(&DeleteQueue{Name: []byte("q")})
			case "switched off":
				r.set(QueueOptions{})
			}
			for range 100 {
				r.tick(5000)
			}
			if err := r.s.Check(); err != nil {
				t.Fatal(err)
			}
			m := r.s.Memory()
			must(t, "keys", m.Keys, 0)
			must(t, "flows", m.Flows, 0)
			must(t, "garbage", m.Garbage, 0)
			must(t, "slots of keys", r.s.keys.Len()+r.s.flows.Len()+r.s.keyIx.Len(), 0)
		})
	}
}

// TestKeyDebtsFull fills the table of debts: what has a key is refused, what has none and what is in goes on.
func TestKeyDebtsFull(t *testing.T) {
	r := limited(t, QueueOptions{RatePerKeyMilli: 1000})
	r.s.lim.keyDebts = 3
	for i := range 5 {
		r.putKeyed(fmt.Sprint("k", i), 4, fmt.Sprint(i))
	}
	must(t, "all go out, one more than the table holds and more", r.served(99), "0 1 2 3 4")
	must(t, "debts", r.stats().KeyDebts, 5)
	one := &Enqueue{Queue: []byte("q"), Messages: []Message{{Key: []byte("k9")}}}
	must(t, "limit", r.refused(one, QueueFull, FieldRatePerKey).Limit, 3)
	r.refused(&Ack{Token: r.live(), Then: []ThenMessage{{Queue: []byte("q"), Message: Message{Key: []byte("k9")}}}}, QueueFull, FieldRatePerKey)
	r.putKeyed("", 4, "x")
	must(t, "without a key", r.served(9), "x")
	r.everywhere()
	r.tick(1000)
	must(t, "paid", r.stats().KeyDebts, 0)
	r.ok(one)
	r.everywhere()
}

// live is a token that is good.
func (r *rig) live() (tok Token) {
	r.s.ConsumerLeases(someone, func(t Token) bool { tok = t; return false })
	return tok
}

// badKeyOptions are options of keys that are refused.
func badKeyOptions() []badKeyOption {
	fair := func(ws ...FairWeight) QueueOptions { return QueueOptions{FairBy: FairByKey, FairWeights: ws} }
	many := manyWeights(LimitFairWeights + 1)
	return []badKeyOption{
		{"MaxInFlightPerKey in a fifo queue", QueueOptions{MaxInFlightPerKey: 1, Ordering: OrderFIFO}, FieldInFlightPerKey},
		{"MaxInFlightPerKey in a per_key queue", QueueOptions{MaxInFlightPerKey: 1, Ordering: OrderPerKey}, FieldInFlightPerKey},
		{"RatePerKeyMilli in a fifo queue", QueueOptions{RatePerKeyMilli: 1, Ordering: OrderFIFO}, FieldRatePerKey},
		{"BurstPerKey without RatePerKeyMilli", QueueOptions{BurstPerKey: 1}, FieldBurstPerKey},
		{"FairBy unknown", QueueOptions{FairBy: fairEnd}, FieldFairBy},
		{"FairBy in a fifo queue", QueueOptions{FairBy: FairByKey, Ordering: OrderFIFO}, FieldFairBy},
		{"FairWeights without FairBy", QueueOptions{FairWeights: many[:1]}, FieldFairWeights},
		{"FairWeights in a per_key queue", QueueOptions{FairBy: FairByKey, Ordering: OrderPerKey, FairWeights: many[:1]}, FieldFairWeights},
		{"FairWeight.Weight 0", fair(FairWeight{"a", 0}), FieldFairWeights},
		{"FairWeight.Weight 101", fair(FairWeight{"a", LimitFairWeight + 1}), FieldFairWeights},
		{"FairWeight.Weight negative", fair(FairWeight{"a", -1}), FieldFairWeights},
		{"FairWeight.Key empty", fair(FairWeight{"", 1}), FieldFairWeights},
		{"FairWeight.Key too long", fair(FairWeight{strings.Repeat("k", MaxKey+1), 1}), FieldFairWeights},
		{"FairWeight.Key out of order", fair(FairWeight{"b", 1}, FairWeight{"a", 1}), FieldFairWeights},
		{"FairWeight.Key twice", fair(FairWeight{"a", 1}, FairWeight{"a", 1}), FieldFairWeights},
		{"FairWeights too many", fair(many...), FieldFairWeights},
	}
}

type badKeyOption struct {
	name  string
	o     QueueOptions
	field Field
}

func manyWeights(n int) (ws []FairWeight) {
	for i := range n {
		ws = append(ws, FairWeight{fmt.Sprintf("%05d", i), 1})
	}
	return ws
}

// TestKeyOptionsAtTheEdges takes what is just in range; what is not is among the bad input (badKeyOptions).
func TestKeyOptionsAtTheEdges(t *testing.T) {
	r := newRig(t)
	r.ok(&CreateQueue{Name: []byte("all"), Options: QueueOptions{
		MaxInFlightPerKey: LimitMaxInFlight, RatePerKeyMilli: 1, BurstPerKey: LimitBurst, FairBy: FairByKey, FairWeights: manyWeights(LimitFairWeights),
	}})
	r.ok(&CreateQueue{Name: []byte("least"), Options: QueueOptions{MaxInFlightPerKey: 1, RatePerKeyMilli: LimitRateMilli, BurstPerKey: 1}})
	r.ok(&CreateQueue{Name: []byte("ordered"), Options: QueueOptions{Ordering: OrderPerKey, RatePerKeyMilli: 1, FairBy: FairByKey}})
	r.everywhere()
	if err := CheckOp(&SetQueue{Options: QueueOptions{FairWeights: make([]FairWeight, formatWeights+1)}}); err == nil {
		t.Error("more weights than the format carries are encoded")
	}
}
