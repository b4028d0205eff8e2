package fsm

import (
	"slices"
	"sort"
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
