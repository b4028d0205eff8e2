package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestKeyModel plays a queue whose keys matter against the model, with other options, purges, restores and time in between: the
// same messages in the same order, the same counts, nothing left at the end.
func TestKeyModel(t *testing.T) {
	n := 25
	if testing.Short() {
		n = 10
	}
	seen := map[string]int{}
	for _, seed := range seeds(t, n) {
		keyPlay(t, seed, 300, seen)
	}
	for _, what := range []string{"leased", "parked", "several keys opened by time", "too many opened by time", "full of debts", "restored", "purged while held", "turn", "tree", "another burst alone"} {
		if seen[what] == 0 && *seedFlag == 0 {
			t.Errorf("never seen: %s (of %v)", what, seen)
		}
	}
}

const keyBackoff = 40

// keyGame is a state and the model of its queue q, number 1.
type keyGame struct {
	*rig
	seed    uint64
	rng     *rand.Rand
	k       *keyModel
	seen    map[string]int
	entries int // of the step in hand
	nth     int // step
}

func keyPlay(t *testing.T, seed uint64, length int, seen map[string]int) {
	g := &keyGame{rig: newRig(t), seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), seen: seen}
	g.s.lim.keyDebts, g.s.lim.unparks, g.s.lim.garbage, g.s.lim.reclaim = 4, 3, 2, 3
	g.k = &keyModel{keys: map[string]*keyOf{}, now: g.now, lim: g.s.lim}
	g.k.o = g.options()
	g.ok(&CreateQueue{Name: []byte("q"), Options: g.k.o})
	for g.nth = range length {
		if g.rng.IntN(3) == 0 {
			g.now += int64([]int{1, 3, 10, 60, 400}[g.rng.IntN(5)])
			g.step()
			g.k.paid()
		}
		g.entries = 0
		g.play()
		if g.entries > 0 {
			g.k.paid()
		}
		g.compare()
	}
	g.end()
}

func (g *keyGame) fail(format string, args ...any) {
	g.t.Helper()
	g.t.Fatalf("seed %d, step %d: "+format, append([]any{g.seed, g.nth}, args...)...)
}

// step applies an entry, before which time passes for the model.
func (g *keyGame) step(ops ...Op) []Outcome {
	g.entries++
	g.k.pass(g.now, keyBackoff)
	return g.apply(ops...)
}

// some is a message in a state, nil if there is none.
func (g *keyGame) some(st MessageState) *keyMsg {
	var of []*keyMsg
	for _, m := range g.k.ms {
		if m.state == st {
			of = append(of, m)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return of[g.rng.IntN(len(of))]
}

func (g *keyGame) options() (o QueueOptions) {
	rng := g.rng
	o.Retry = RetryPolicy{Kind: RetryFixed, InitialMillis: keyBackoff, MaxAttempts: 1000}
	if rng.IntN(3) > 0 {
		o.MaxInFlightPerKey = int64(1+rng.IntN(3)) * int64(rng.IntN(2))
		if rng.IntN(2) == 0 {
			o.RatePerKeyMilli, o.BurstPerKey = []int64{700, 10_000, 50_000, 400_000}[rng.IntN(4)], int64(rng.IntN(4))
		}
		if rng.IntN(2) == 0 {
			o.FairBy = FairByKey
			o.FairWeights = []FairWeight{{"a", int64(1 + rng.IntN(3))}, {"d", 3}}[:rng.IntN(3)]
		}
	}
	if rng.IntN(4) == 0 {
		o.RateMilli, o.Burst = []int64{30_000, 300_000}[rng.IntN(2)], int64(rng.IntN(6))
	}
	if rng.IntN(4) == 0 {
		o.MaxInFlight = int64(1 + rng.IntN(12))
	}
	o.Normalize()
	return o
}

// play makes one move.
func (g *keyGame) play() {
	switch p := g.rng.IntN(16); {
	case p < 4:
		g.enqueueSome()
	case p < 9:
		g.leaseSome()
	case p < 11:
		if m := g.some(StateLeased); m != nil {
			g.k.back(m)
			g.k.ms = slices.Delete(g.k.ms, slices.Index(g.k.ms, m), slices.Index(g.k.ms, m)+1)
			g.step(&Ack{Token: m.token})
		}
	case p < 13:
		g.giveBack()
	case p < 14:
		if m := g.some(StateReady); m != nil {
			g.k.gone(m)
			g.step(&Cancel{TaskID: []byte(m.id.String())})
		}
	case p < 15 && g.rng.IntN(4) == 0:
		for _, x := range g.k.keys {
			if x.state == keyHeld {
				g.seen["purged while held"]++
			}
		}
		g.k.purge()
		g.step(&PurgeQueue{Name: []byte("q")})
	case p < 15:
	case g.rng.IntN(3) == 0:
		g.change()
	default:
		s := restored(g.t, snapshot(g.t, g.s))
		s.lim = g.s.lim
		g.s.Close()
		g.s = s
		g.seen["restored"]++
	}
}

func (g *keyGame) enqueueSome() {
	k := g.k
	op := &Enqueue{Queue: []byte("q")}
	for range 1 + g.rng.IntN(4) {
		op.Messages = append(op.Messages, Message{
			Key: []byte([]string{"", "a", "b", "c", "d", "e", "f"}[g.rng.IntN(7)]), Priority: []uint8{4, 4, 4, 9, 0}[g.rng.IntN(5)],
		})
	}
	for j, o := range g.step(op) {
		m := &op.Messages[j]
		if full := k.o.RatePerKeyMilli != 0 && len(m.Key) > 0 && k.debts() >= k.lim.keyDebts; full != (o.Code != OK) {
			g.fail("message %d: %+v with %d in debt", j, o, k.debts())
		} else if full {
			g.seen["full of debts"]++
			must(g.t, "refused for", fmt.Sprint(o.Code, o.Field, o.Limit), fmt.Sprint(QueueFull, FieldRatePerKey, k.lim.keyDebts))
			continue
		}
		x := &keyMsg{id: o.ID, key: string(m.Key), priority: m.Priority}
		k.ms = append(k.ms, x)
		k.ready(x, true)
	}
}

func (g *keyGame) leaseSome() {
	k, due := g.k, 0
	for _, x := range k.keys {
		if x.state == keyHeld && x.until <= k.now {
			due++
		}
	}
	if due > 1 {
		g.seen["several keys opened by time"]++
	}
	if due > k.lim.unparks {
		g.seen["too many opened by time"]++
	}
	most, length := 1+g.rng.IntN(6), int64(100+g.rng.IntN(400))
	look := g.s.Outlook(g.ref("q"), g.now)
	g.step(&Lease{Queue: []byte("q"), Consumer: someone, Max: int32(most), LeaseMillis: length})
	want := k.lease(most, length)
	var got []ID
	for _, l := range g.fx.Leases {
		got = append(got, l.Token.Message)
		for _, m := range k.ms {
			if m.id == l.Token.Message {
				m.token = l.Token
			}
		}
	}
	if !slices.Equal(got, want) {
		g.fail("leased %v, want %v, options %+v", got, want, k.o)
	}
	if due <= k.lim.unparks && k.now == g.s.Time() && int64(len(got)) < min(int64(most), look.Ready) {
		g.fail("leased %d, and the outlook was %+v", len(got), look)
	}
	g.seen["leased"] += len(got)
	if k.o.FairBy == FairByKey && len(got) > 1 {
		g.seen["turn"]++
	}
}

// giveBack releases a few messages that are out, or nacks one.
func (g *keyGame) giveBack() {
	k, m := g.k, g.some(StateLeased)
	switch {
	case m == nil:
	case g.rng.IntN(8) == 0:
		k.back(m)
		m.due = k.now + keyBackoff
		g.step(&Nack{Token: m.token, DelayMillis: -1})
	default:
		var ops []Op
		for n := 1 + g.rng.IntN(8); n > 0 && m != nil; n-- {
			if g.s.sides.Get(g.s.messages.Get(g.slot(m.id)).side).free < MaxFreeReturns {
				k.back(m)
				k.ready(m, false)
				ops = append(ops, &Release{Token: m.token})
			}
			m = g.some(StateLeased)
		}
		g.step(ops...)
	}
}

// change sets other options, often nearly the same.
func (g *keyGame) change() {
	o := g.options()
	switch g.rng.IntN(4) {
	case 0:
		if g.k.o.FairBy == FairByKey { // another weight alone
			o = g.k.o
			o.FairWeights = []FairWeight{{"b", 2}}
		}
	case 1:
		if g.k.o.RatePerKeyMilli != 0 { // another burst alone, which may come to the same rate
			o = g.k.o
			o.BurstPerKey = max(1, o.RatePerKeyMilli/1000) - o.BurstPerKey
			o.BurstPerKey = max(0, o.BurstPerKey)
			g.seen["another burst alone"]++
		}
	}
	g.step(&SetQueue{Name: []byte("q"), Options: o})
	g.k.set(o)
}

// compare holds the counts and what is listed to the model.
func (g *keyGame) compare() {
	k, st := g.k, g.s.Stats(1)
	if st.Parked != k.parked() || st.KeyDebts != k.debts() && k.matter() {
		g.fail("%d parked and %d in debt, want %d and %d", st.Parked, st.KeyDebts, k.parked(), k.debts())
	}
	g.s.flows.Each(func(_ int32, f *flow) bool {
		if f.tree != none && g.s.child(f.tree) != none {
			g.seen["tree"]++
		}
		return true
	})
	if st.Parked > 0 {
		g.seen["parked"]++
	}
	var listed, want []string
	g.s.Peek(1, StateReady, ID{}, func(in *Info) bool { listed = append(listed, in.ID.String()); return true })
	for _, m := range k.ms {
		if m.state == StateReady {
			want = append(want, m.id.String())
		}
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		g.fail("peek shows %d ready, want %d", len(listed), len(want))
	}
}

// end has all work done: nothing is left of any key.
func (g *keyGame) end() {
	g.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{RatePerKeyMilli: LimitRateMilli, FairBy: FairByKey}})
	for range 200 {
		g.now += 600
		g.apply(&Lease{Queue: []byte("q"), Consumer: someone, Max: 1000})
		for _, l := range append([]Leased(nil), g.fx.Leases...) {
			g.ok(&Ack{Token: l.Token})
		}
	}
	if m := g.s.Memory(); m.Messages+m.Keys+m.Flows+m.Garbage != 0 {
		g.fail("at the end there is still %+v", m)
	}
}

// slot is the slot of a message that is there.
func (r *rig) slot(id ID) int32 { sl, _ := r.s.find(id); return sl }
