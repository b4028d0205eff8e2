package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

// keyModel is the contract of keys that matter, written down as plainly as can be: lists that are searched from end to end, and
// nothing remembered that could be counted. It knows one unordered queue.
type keyModel struct {
	o      QueueOptions
	now    int64
	places uint64
	tat    int64
	ms     []*keyMsg
	keys   map[string]*keyOf
	rings  [MaxPriority + 1][]string
	left   [MaxPriority + 1]int64 // of the head's turn
	lim    bounds
}

type keyMsg struct {
	id       ID
	key      string
	priority uint8
	place    uint64
	state    MessageState
	due      int64
	token    Token
}

type keyOf struct {
	tat, until int64
	state      keyState
}

func (k *keyModel) of(key string) *keyOf {
	if k.keys[key] == nil {
		k.keys[key] = &keyOf{}
	}
	return k.keys[key]
}

func (k *keyModel) matter() bool {
	return k.o.MaxInFlightPerKey != 0 || k.o.RatePerKeyMilli != 0 || k.o.FairBy != FairByNone
}

// waiting are the ready messages of a key, of one priority unless that is −1, in serving order.
func (k *keyModel) waiting(key string, priority int) (ms []*keyMsg) {
	for _, m := range k.ms {
		if m.state == StateReady && m.key == key && (priority < 0 || int(m.priority) == priority) {
			ms = append(ms, m)
		}
	}
	sort.Slice(ms, func(i, j int) bool {
		if ms[i].priority != ms[j].priority {
			return ms[i].priority > ms[j].priority
		}
		return ms[i].place < ms[j].place
	})
	return ms
}

func (k *keyModel) out(key string) (n int64) {
	for _, m := range k.ms {
		if m.state == StateLeased && m.key == key {
			n++
		}
	}
	return n
}

// rate is what a decision needs of a rate: I and τ, ns.
func (k *keyModel) rate(milli, burst int64) (interval, slack int64) {
	if milli == 0 {
		return 0, 0
	}
	if burst == 0 {
		burst = max(1, milli/1000)
	}
	return 1_000_000_000_000 / milli, (burst - 1) * (1_000_000_000_000 / milli)
}

func (k *keyModel) verdict(key string) (keyState, int64) {
	x := k.of(key)
	interval, slack := k.rate(k.o.RatePerKeyMilli, k.o.BurstPerKey)
	switch {
	case len(k.waiting(key, -1)) == 0:
		return keyIdle, 0
	case key == "":
	case k.o.MaxInFlightPerKey != 0 && k.out(key) >= k.o.MaxInFlightPerKey:
		return keyFull, 0
	case interval != 0 && max(x.tat, k.now*1_000_000) > k.now*1_000_000+slack:
		return keyHeld, (x.tat - slack + 999_999) / 1_000_000
	}
	return keyOpen, 0
}

func (k *keyModel) enter(key string, p int) {
	if k.o.FairBy == FairByKey && !slices.Contains(k.rings[p], key) {
		k.rings[p] = append(k.rings[p], key)
	}
}

func (k *keyModel) exit(key string, p int) {
	if i := slices.Index(k.rings[p], key); i >= 0 {
		if i == 0 {
			k.left[p] = 0
		}
		k.rings[p] = slices.Delete(k.rings[p], i, i+1)
	}
}

func (k *keyModel) judge(key string) {
	x := k.of(key)
	x.state, x.until = k.verdict(key)
	for p := range k.rings {
		if x.state == keyOpen && len(k.waiting(key, p)) > 0 {
			k.enter(key, p)
		} else {
			k.exit(key, p)
		}
	}
}

// ready has a message become ready, at a new place unless it has an old one that it is to keep.
func (k *keyModel) ready(m *keyMsg, anew bool) {
	m.state = StateReady
	if anew {
		k.places++
		m.place = k.places
	}
	switch {
	case !k.matter():
	case len(k.waiting(m.key, -1)) == 1:
		k.judge(m.key)
	case k.of(m.key).state == keyOpen:
		k.enter(m.key, int(m.priority))
	}
}

// gone takes a ready message out for another reason than a lease.
func (k *keyModel) gone(m *keyMsg) {
	k.ms = slices.Delete(k.ms, slices.Index(k.ms, m), slices.Index(k.ms, m)+1)
	if k.matter() {
		k.left0(m)
	}
}

func (k *keyModel) left0(m *keyMsg) {
	if len(k.waiting(m.key, int(m.priority))) == 0 {
		k.exit(m.key, int(m.priority))
	}
	if len(k.waiting(m.key, -1)) == 0 {
		k.judge(m.key)
	}
}

// back is the end of a lease.
func (k *keyModel) back(m *keyMsg) {
	m.state = StateRetrying // what it becomes is the caller's
	if k.matter() && k.of(m.key).state == keyFull {
		k.judge(m.key)
	}
}

func (k *keyModel) next() (m *keyMsg) {
	if k.matter() && k.o.FairBy == FairByKey {
		for p := MaxPriority; p >= 0; p-- {
			if len(k.rings[p]) > 0 {
				return k.waiting(k.rings[p][0], p)[0]
			}
		}
		return nil
	}
	for _, x := range k.ms {
		if x.state == StateReady && (!k.matter() || k.of(x.key).state == keyOpen) &&
			(m == nil || x.priority > m.priority || x.priority == m.priority && x.place < m.place) {
			m = x
		}
	}
	return m
}

func (k *keyModel) lease(most int, length int64) (ids []ID) {
	if k.matter() {
		var due []string
		for key, x := range k.keys {
			if x.state == keyHeld && x.until <= k.now {
				due = append(due, key)
			}
		}
		sort.Slice(due, func(i, j int) bool {
			if a, b := k.keys[due[i]].until, k.keys[due[j]].until; a != b {
				return a < b
			}
			return due[i] < due[j]
		})
		for _, key := range due[:min(len(due), k.lim.unparks)] {
			k.judge(key)
		}
	}
	out := int64(0)
	for _, m := range k.ms {
		if m.state == StateLeased {
			out++
		}
	}
	for len(ids) < most {
		m := k.next()
		interval, slack := k.rate(k.o.RateMilli, k.o.Burst)
		now := k.now * 1_000_000
		if m == nil || k.o.MaxInFlight != 0 && out >= k.o.MaxInFlight || interval != 0 && max(k.tat, now) > now+slack {
			break
		}
		ids = append(ids, m.id)
		out++
		if interval != 0 {
			k.tat = max(k.tat, now) + interval
		}
		m.state, m.due = StateLeased, k.now+length
		if !k.matter() {
			continue
		}
		p := int(m.priority)
		if k.o.FairBy == FairByKey && len(k.waiting(m.key, p)) > 0 {
			if k.left[p] == 0 {
				k.left[p] = 1
				for _, w := range k.o.FairWeights {
					if w.Key == m.key {
						k.left[p] = w.Weight
					}
				}
			}
			if k.left[p]--; k.left[p] == 0 {
				k.rings[p] = append(k.rings[p][1:], m.key)
			}
		}
		if interval, _ := k.rate(k.o.RatePerKeyMilli, k.o.BurstPerKey); interval != 0 && m.key != "" {
			k.of(m.key).tat = max(k.of(m.key).tat, now) + interval
		}
		if len(k.waiting(m.key, p)) == 0 {
			k.exit(m.key, p)
		}
		k.judge(m.key)
	}
	return ids
}

// pass has time pass: retries and leases that are due, and then the debts that are paid.
func (k *keyModel) pass(to int64, backoff int64) {
	k.now = to
	for {
		var m *keyMsg
		for _, x := range k.ms {
			if x.state != StateReady && x.due <= to && (m == nil || x.due < m.due || x.due == m.due &&
				(x.state > m.state && x.state == StateRetrying || x.state == m.state && x.id.Compare(m.id) < 0)) {
				m = x
			}
		}
		switch {
		case m == nil:
			return
		case m.state == StateRetrying:
			k.ready(m, true)
		default:
			k.back(m)
			m.due = to + backoff
		}
	}
}

// paid reclaims debts at the end of an entry, the earliest first.
func (k *keyModel) paid() {
	for range k.lim.reclaim {
		first := ""
		for key, x := range k.keys {
			if x.tat != 0 && x.tat <= k.now*1_000_000 && (first == "" || x.tat < k.keys[first].tat || x.tat == k.keys[first].tat && key < first) {
				first = key
			}
		}
		if first == "" {
			return
		}
		k.keys[first].tat = 0
	}
}

func (k *keyModel) debts() (n int64) {
	for _, x := range k.keys {
		if x.tat != 0 {
			n++
		}
	}
	return n
}

func (k *keyModel) parked() (n int64) {
	if !k.matter() {
		return 0
	}
	for key, x := range k.keys {
		if x.state.parked() {
			n += int64(len(k.waiting(key, -1)))
		}
	}
	return n
}

// purge takes what is not out.
func (k *keyModel) purge() {
	k.ms = slices.DeleteFunc(k.ms, func(m *keyMsg) bool { return m.state != StateLeased })
	for _, x := range k.keys {
		x.state, x.until = keyIdle, 0
	}
	k.rings, k.left = [MaxPriority + 1][]string{}, [MaxPriority + 1]int64{}
}

func (k *keyModel) set(o QueueOptions) {
	was, old := k.matter(), k.o
	k.o = o
	cut := func(tat, milli, burst int64) int64 {
		interval, slack := k.rate(milli, burst)
		if interval == 0 {
			return 0
		}
		return min(tat, k.now*1_000_000+slack+interval)
	}
	k.tat = cut(k.tat, o.RateMilli, o.Burst)
	if !k.matter() {
		k.keys, k.rings, k.left = map[string]*keyOf{}, [MaxPriority + 1][]string{}, [MaxPriority + 1]int64{}
		return
	}
	if was && old.FairBy != o.FairBy {
		k.rings, k.left = [MaxPriority + 1][]string{}, [MaxPriority + 1]int64{}
	}
	if was && old.FairBy == o.FairBy && old.MaxInFlightPerKey == o.MaxInFlightPerKey && old.RatePerKeyMilli == o.RatePerKeyMilli && old.BurstPerKey == o.BurstPerKey {
		return
	}
	var ready []*keyMsg
	for _, m := range k.ms {
		k.of(m.key)
		if m.state == StateReady {
			ready = append(ready, m)
		}
	}
	for key, x := range k.keys {
		x.tat = cut(x.tat, o.RatePerKeyMilli, o.BurstPerKey)
		if x.state, x.until = k.verdict(key); x.state != keyOpen {
			for p := range k.rings {
				k.exit(key, p)
			}
		}
	}
	sort.Slice(ready, func(i, j int) bool { return ready[i].place < ready[j].place })
	for _, m := range ready { // by the flows' first messages
		if k.of(m.key).state == keyOpen {
			k.enter(m.key, int(m.priority))
		}
	}
}

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
	for _, what := range []string{"leased", "parked", "several keys opened by time", "too many opened by time", "full of debts", "restored", "purged while held", "turn", "tree"} {
		if seen[what] == 0 && *seedFlag == 0 {
			t.Errorf("never seen: %s (of %v)", what, seen)
		}
	}
}

const keyBackoff = 40

func keyPlay(t *testing.T, seed uint64, length int, seen map[string]int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	r := newRig(t)
	r.s.lim.keyDebts, r.s.lim.unparks, r.s.lim.garbage, r.s.lim.reclaim = 4, 3, 2, 3
	k := &keyModel{keys: map[string]*keyOf{}, now: r.now, lim: r.s.lim}
	name := []byte("q")
	options := func() (o QueueOptions) {
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
	k.o = options()
	r.ok(&CreateQueue{Name: name, Options: k.o})
	entries := 0
	step := func(ops ...Op) []Outcome {
		entries++
		k.pass(r.now, keyBackoff)
		return r.apply(ops...)
	}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("seed %d: "+format, append([]any{seed}, args...)...)
	}
	some := func(st MessageState) *keyMsg {
		var of []*keyMsg
		for _, m := range k.ms {
			if m.state == st {
				of = append(of, m)
			}
		}
		if len(of) == 0 {
			return nil
		}
		return of[rng.IntN(len(of))]
	}
	for i := range length {
		if rng.IntN(3) == 0 {
			r.now += int64([]int{1, 3, 10, 60, 400}[rng.IntN(5)])
			step()
			k.paid()
		}
		entries = 0
		switch rng.IntN(16) {
		case 0, 1, 2, 3:
			op := &Enqueue{Queue: name}
			for range 1 + rng.IntN(4) {
				op.Messages = append(op.Messages, Message{
					Key: []byte([]string{"", "a", "b", "c", "d", "e", "f"}[rng.IntN(7)]), Priority: []uint8{4, 4, 4, 9, 0}[rng.IntN(5)],
				})
			}
			out := step(op)
			for j, o := range out {
				m := &op.Messages[j]
				if full := k.o.RatePerKeyMilli != 0 && len(m.Key) > 0 && k.debts() >= k.lim.keyDebts; full != (o.Code != OK) {
					fail("entry %d message %d: %+v with %d in debt", i, j, o, k.debts())
				} else if full {
					seen["full of debts"]++
					must(t, "refused for", fmt.Sprint(o.Code, o.Field, o.Limit), fmt.Sprint(QueueFull, FieldRatePerKey, k.lim.keyDebts))
					continue
				}
				x := &keyMsg{id: o.ID, key: string(m.Key), priority: m.Priority}
				k.ms = append(k.ms, x)
				k.ready(x, true)
			}
		case 4, 5, 6, 7, 8:
			due := 0
			for _, x := range k.keys {
				if x.state == keyHeld && x.until <= k.now {
					due++
				}
			}
			if due > 1 {
				seen["several keys opened by time"]++
			}
			if due > k.lim.unparks {
				seen["too many opened by time"]++
			}
			most, length := 1+rng.IntN(6), int64(100+rng.IntN(400))
			look := r.s.Outlook(1, r.now)
			step(&Lease{Queue: name, Consumer: someone, Max: int32(most), LeaseMillis: length})
			want := k.lease(most, length)
			var got []ID
			for _, l := range r.fx.Leases {
				got = append(got, l.Token.Message)
				for _, m := range k.ms {
					if m.id == l.Token.Message {
						m.token = l.Token
					}
				}
			}
			if !slices.Equal(got, want) {
				fail("entry %d of %d: leased %v, want %v, options %+v", i, length, got, want, k.o)
			}
			if due <= k.lim.unparks && k.now == r.s.Time() && int64(len(got)) < min(int64(most), look.Ready) {
				fail("entry %d: leased %d, and the outlook was %+v", i, len(got), look)
			}
			seen["leased"] += len(got)
			if k.o.FairBy == FairByKey && len(got) > 1 {
				seen["turn"]++
			}
		case 9, 10:
			if m := some(StateLeased); m != nil {
				k.back(m)
				k.ms = slices.Delete(k.ms, slices.Index(k.ms, m), slices.Index(k.ms, m)+1)
				step(&Ack{Token: m.token})
			}
		case 11, 12:
			if m := some(StateLeased); m != nil && rng.IntN(8) > 0 {
				var ops []Op
				for n := 1 + rng.IntN(8); n > 0 && m != nil; n-- {
					if r.s.sides.Get(r.s.messages.Get(r.slot(m.id)).side).free < MaxFreeReturns {
						k.back(m)
						k.ready(m, false)
						ops = append(ops, &Release{Token: m.token})
					}
					m = some(StateLeased)
				}
				step(ops...)
			} else if m != nil {
				k.back(m)
				m.due = k.now + keyBackoff
				step(&Nack{Token: m.token, DelayMillis: -1})
			}
		case 13:
			if m := some(StateReady); m != nil {
				k.gone(m)
				step(&Cancel{TaskID: []byte(m.id.String())})
			}
		case 14:
			if rng.IntN(4) == 0 {
				for _, x := range k.keys {
					if x.state == keyHeld {
						seen["purged while held"]++
					}
				}
				k.purge()
				step(&PurgeQueue{Name: name})
			}
		case 15:
			switch rng.IntN(3) {
			case 0:
				o := options()
				if k.o.FairBy == FairByKey && rng.IntN(2) == 0 { // another weight alone
					o = k.o
					o.FairWeights = []FairWeight{{"b", 2}}
				}
				step(&SetQueue{Name: name, Options: o})
				k.set(o)
			default:
				s := restored(t, snapshot(t, r.s))
				s.lim = r.s.lim
				r.s.Close()
				r.s = s
				seen["restored"]++
			}
		}
		if entries > 0 {
			k.paid()
		}
		st := r.s.Stats(1)
		if st.Parked != k.parked() || st.KeyDebts != k.debts() && k.matter() {
			fail("entry %d: %d parked and %d in debt, want %d and %d", i, st.Parked, st.KeyDebts, k.parked(), k.debts())
		}
		r.s.flows.Each(func(_ int32, f *flow) bool {
			if f.tree != none && r.s.child(f.tree) != none {
				seen["tree"]++
			}
			return true
		})
		if st.Parked > 0 {
			seen["parked"]++
		}
		var listed []string
		r.s.Peek(1, StateReady, ID{}, func(in *Info) bool { listed = append(listed, in.ID.String()); return true })
		var want []string
		for _, m := range k.ms {
			if m.state == StateReady {
				want = append(want, m.id.String())
			}
		}
		slices.Sort(listed)
		slices.Sort(want)
		if !slices.Equal(listed, want) {
			fail("entry %d: peek shows %d ready, want %d", i, len(listed), len(want))
		}
	}
	// Everything ends: nothing is left of any key.
	r.ok(&SetQueue{Name: name, Options: QueueOptions{RatePerKeyMilli: LimitRateMilli, FairBy: FairByKey}})
	for range 200 {
		r.now += 600
		r.apply(&Lease{Queue: name, Consumer: someone, Max: 1000})
		for _, l := range append([]Leased(nil), r.fx.Leases...) {
			r.ok(&Ack{Token: l.Token})
		}
	}
	if m := r.s.Memory(); m.Messages+m.Keys+m.Flows+m.Garbage != 0 {
		fail("at the end there is still %+v", m)
	}
}

// slot is the slot of a message that is there.
func (r *rig) slot(id ID) int32 { sl, _ := r.s.find(id); return sl }
