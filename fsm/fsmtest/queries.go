package fsmtest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/quorate/quorate/fsm"
)

// CompareQueries asks both everything and compares the answers, and lets the state check itself.
func (p *Pair) CompareQueries() error {
	m, s := p.Model, p.State
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := s.Check(); err != nil {
		fail("the state's own check: %w", err)
	}
	if s.Index() != m.index || s.Time() != m.t || s.Shift() != m.shift || s.Epoch() != m.epoch || s.Cluster() != m.cluster {
		fail("clock: want index %d T %d shift %d epoch %d, got %d %d %d %d", m.index, m.t, m.shift, m.epoch, s.Index(), s.Time(), s.Shift(), s.Epoch())
	}
	wantAt, wantOK := m.NextDue()
	if at, ok := s.NextDue(); ok != wantOK || ok && at != wantAt {
		fail("next due: want %d %v, got %d %v", wantAt, wantOK, at, ok)
	}
	var names []string
	s.Queues("", func(_ uint32, name string) bool { names = append(names, name); return true })
	if want := m.Queues(); !reflect.DeepEqual(want, names) {
		fail("queues: want %q, got %q", want, names)
		return errors.Join(errs...)
	}
	var total fsm.Memory
	for _, name := range names {
		n, ok := s.QueueNumber([]byte(name))
		if !ok || s.QueueName(n) != name {
			fail("queue %q has no number or another name", name)
			continue
		}
		errs = append(errs, p.compareQueue(name, n, &total))
	}
	sessions, outcomes := m.Sessions()
	mem := s.Memory()
	if mem.Garbage > 0 && mem.Lanes > int64(m.Lanes()) {
		mem.Lanes = int64(m.Lanes()) // those of purged messages go with them
	}
	type counts struct{ messages, dead, results, tombstones, dedup, sessions, outcomes, queues, lanes int64 }
	want := counts{total.Messages, total.Dead, total.Results, total.Tombstones, total.DedupKeys, int64(sessions), int64(outcomes), int64(len(names)), int64(m.Lanes())}
	if got := (counts{mem.Messages, mem.Dead, mem.Results, mem.Tombstones, mem.DedupKeys, mem.Sessions, mem.RequestOutcomes, mem.Queues, mem.Lanes}); want != got {
		fail("memory: want %+v, got %+v", want, got)
	}
	errs = append(errs, p.compareSessions(), p.compareTables())
	return errors.Join(errs...)
}

// compareQueue compares all that a queue answers, and adds its counts to the total.
func (p *Pair) compareQueue(name string, n uint32, total *fsm.Memory) error {
	m, s := p.Model, p.State
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("queue "+name+": "+format, args...))
	}
	want, _ := m.Stats(name)
	got := s.Stats(n)
	if !reflect.DeepEqual(s.QueueOptions(n), want.Options) {
		fail("options: want %+v, got %+v", want.Options, s.QueueOptions(n))
	}
	if want, got := m.queue(name).mapping, s.MappingGeneration(n); want != got {
		fail("generation of the mapping: want %d, got %d", want, got)
	}
	total.Messages += want.Ready + want.Scheduled + want.Retrying + want.Leased
	total.Dead += want.Dead
	total.Results += want.Results
	total.Tombstones += want.Tombstones
	total.DedupKeys += want.DedupKeys
	// What the model does not keep.
	want.Refused, want.RefusedBy, want.OldestEnqueuedAt, want.WaitingSince = got.Refused, got.RefusedBy, got.OldestEnqueuedAt, got.WaitingSince
	if !reflect.DeepEqual(want, got) {
		fail("stats:%s", fieldDiff(want, got))
	}
	if want.Ready == 0 && got.WaitingSince != 0 {
		fail("nothing is ready, but something has waited since %d", got.WaitingSince)
	}
	if live := want.Ready + want.Scheduled + want.Retrying + want.Leased; live == 0 && (got.Bytes != 0 || got.OldestEnqueuedAt != 0) {
		fail("empty, but bytes %d and oldest %d", got.Bytes, got.OldestEnqueuedAt)
	}
	if leasable := m.Leasable(name); int64(s.Ready(n)) != leasable && !m.queue(name).keyed() {
		fail("ready: want %d, got %d", leasable, s.Ready(n))
	}
	ref := s.Lookup([]byte(name))
	errs = append(errs, p.compareOutlook(name, ref), p.compareStanding(name, n))
	paused, limited := s.Throttled(ref)
	if o := want.Options; paused != o.Paused || limited != (o.MaxInFlight > 0 || o.RateMilli > 0 || m.queue(name).keyed() || o.Overflow == fsm.OverflowDropOldest) || s.QueueOrdering(ref) != o.Ordering ||
		s.Ordered([]byte(name)) != (o.Ordering != fsm.OrderUnordered) {
		fail("paused %v, limited %v, ordering %d, ordered %v, with %+v", paused, limited, s.QueueOrdering(ref), s.Ordered([]byte(name)), o)
	}
	for _, state := range []fsm.MessageState{fsm.StateReady, fsm.StateScheduled, fsm.StateRetrying, fsm.StateLeased} {
		list := p.peekAll(n, state)
		byID := map[fsm.ID]fsm.Info{}
		for _, in := range list {
			byID[in.ID] = in
		}
		wantList := m.Live(name, state)
		if len(wantList) != len(list) || len(byID) != len(list) {
			fail("peek of state %d: want %d, got %d (%d different)", state, len(wantList), len(list), len(byID))
			continue
		}
		for i, w := range wantList {
			if diff := infoDiff(w, byID[w.ID]); diff != "" {
				fail("peek of state %d, %s: %s", state, shortID(w.ID), diff)
			}
			if state == fsm.StateLeased {
				errs = append(errs, p.compareLease(w.Token))
			}
			if i%(1+len(wantList)/100) == 0 { // of a crowd, some
				errs = append(errs, p.compareTask(name, string(w.TaskID)), p.compareTask("", idText(w.ID)), p.compareTask("", idText(w.OriginalID)))
			}
		}
	}
	dead := p.deadAll(n)
	wantDead := m.Dead(name)
	for i := range max(len(wantDead), len(dead)) {
		if i >= len(wantDead) || i >= len(dead) {
			fail("dead letters: want %d, got %d", len(wantDead), len(dead))
			break
		}
		if diff := infoDiff(wantDead[i], dead[i]); diff != "" {
			fail("dead letter %d: %s", i, diff)
		}
		var in fsm.Info
		if !s.DeadLetter(n, wantDead[i].ID, &in) {
			fail("dead letter %s is not found by id", shortID(wantDead[i].ID))
		}
		if i%(1+len(wantDead)/100) == 0 {
			errs = append(errs, p.compareTask(name, string(wantDead[i].TaskID)), p.compareTask("", idText(wantDead[i].ID)), p.compareTask("", idText(wantDead[i].OriginalID)))
		}
	}
	errs = append(errs, p.compareFilters(name, n, wantDead))
	for _, r := range m.queue(name).records {
		errs = append(errs, p.compareTask(name, r.task))
		if !r.message.IsZero() {
			errs = append(errs, p.compareTask("", idText(r.message)), p.compareTask(name, idText(r.message)), p.compareTask("", idText(r.original)))
		}
	}
	errs = append(errs, p.compareResults(name, n))
	for i := range 12 {
		errs = append(errs, p.compareTask(name, fmt.Sprintf("task-%d", i)))
	}
	return errors.Join(errs...)
}

// peekAll lists a queue's messages of one state in pages.
func (p *Pair) peekAll(n uint32, state fsm.MessageState) (list []fsm.Info) {
	after, page := fsm.ID{}, 5
	for {
		got := 0
		partial := p.State.Peek(n, state, after, func(in *fsm.Info) bool {
			list = append(list, keepInfo(in))
			got++
			return got < page
		})
		switch {
		case got == page:
			after = list[len(list)-1].ID
		case !partial.IsZero():
			after = partial
		default:
			return list
		}
		page *= 2
	}
}

// deadAll lists a queue's dead letters in pages.
func (p *Pair) deadAll(n uint32) (list []fsm.Info) {
	at, after, page := int64(0), fsm.ID{}, 5
	for {
		got := 0
		partialAt, partial := p.State.Dead(n, at, after, func(in *fsm.Info) bool {
			list = append(list, keepInfo(in))
			got++
			return got < page
		})
		switch {
		case got == page:
			last := list[len(list)-1]
			at, after = last.EndedAt, last.ID
		case !partial.IsZero():
			at, after = partialAt, partial
		default:
			return list
		}
		page *= 2
	}
}

// keepInfo copies what aliases the state.
func keepInfo(in *fsm.Info) fsm.Info {
	c := *in
	for _, b := range []*[]byte{&c.TaskID, &c.Kind, &c.ContentType, &c.Key, &c.Body, &c.Worker, &c.Error} {
		*b = bytes.Clone(*b)
	}
	c.Headers = keepHeaders(in.Headers)
	c.History = nil
	for _, a := range in.History {
		a.Worker, a.Error = bytes.Clone(a.Worker), bytes.Clone(a.Error)
		c.History = append(c.History, a)
	}
	return c
}

func keepHeaders(list []fsm.Header) (c []fsm.Header) {
	for _, h := range list {
		c = append(c, fsm.Header{Name: bytes.Clone(h.Name), Value: bytes.Clone(h.Value)})
	}
	return c
}

// infoDiff names the fields in which two pictures of a message differ.
func infoDiff(want, got fsm.Info) string { return fieldDiff(want, got) }

// fieldDiff names the fields in which two structs of one type differ; empty and absent slices are equal.
func fieldDiff(want, got any) string {
	w, g := reflect.ValueOf(want), reflect.ValueOf(got)
	diff := ""
	for i := range w.NumField() {
		a, b := w.Field(i), g.Field(i)
		if !w.Type().Field(i).IsExported() {
			continue
		}
		if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
			continue
		}
		if a.Comparable() && a.Kind() != reflect.Interface && a.Equal(b) {
			continue
		}
		if x, ok := a.Interface().([]byte); ok && bytes.Equal(x, b.Bytes()) {
			continue
		}
		if reflect.DeepEqual(a.Interface(), b.Interface()) {
			continue
		}
		// Printed, nil and empty are the same, at every depth.
		if x, y := fmt.Sprintf("%v", a), fmt.Sprintf("%v", b); x != y {
			diff += fmt.Sprintf(" %s: want %.300s, got %.300s;", w.Type().Field(i).Name, x, y)
		}
	}
	return diff
}

func (p *Pair) compareLease(t fsm.Token) error {
	want, wantOK := p.Model.Delivery(t)
	var got fsm.Delivery
	if ok := p.State.Lease(t, &got); ok != wantOK {
		return fmt.Errorf("lease %+v: want live %v, got %v", t, wantOK, ok)
	}
	if diff := fieldDiff(want, got); diff != "" {
		return fmt.Errorf("lease %+v:%s", t, diff)
	}
	if want, got := p.Model.Holder(t), p.State.Holder(t); want != got {
		return fmt.Errorf("lease %+v holds others back in queue: want %q, got %q", t, want, got)
	}
	return nil
}

// compareTask compares status and result of a task.
func (p *Pair) compareTask(queue, task string) error {
	want, wantFound := p.Model.Task(queue, task)
	var got fsm.Info
	found := p.State.Task(queue, []byte(task), &got)
	if found != wantFound {
		return fmt.Errorf("task %q of %q: want found %v (state %d), got %v (state %d)", task, queue, wantFound, want.State, found, got.State)
	}
	if found {
		if want.State == fsm.StateDone || want.State == fsm.StateCancelled {
			got = fsm.Info{ID: got.ID, Queue: got.Queue, TaskID: got.TaskID, State: got.State}
			want.TaskID, got.TaskID = nil, nil // a tombstone keeps only its hash
		}
		if diff := infoDiff(want, got); diff != "" {
			return fmt.Errorf("task %q of %q:%s", task, queue, diff)
		}
	}
	wantRes, wantFound, wantHas := p.Model.Result(queue, task)
	var res fsm.RecordedResult
	found, has := p.State.Result(queue, []byte(task), &res)
	if found != wantFound || has != wantHas {
		return fmt.Errorf("result of task %q of %q: want found %v with result %v, got %v %v", task, queue, wantFound, wantHas, found, has)
	}
	if has {
		if diff := fieldDiff(wantRes, res); diff != "" {
			return fmt.Errorf("result of task %q of %q:%s", task, queue, diff)
		}
	}
	return nil
}

// compareSessions compares what is known of sessions, requests and consumers.
func (p *Pair) compareSessions() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	wantConsumers := map[fsm.Consumer]int{}
	for _, q := range p.Model.queues {
		for _, x := range q.messages {
			if x.state == fsm.StateLeased {
				wantConsumers[x.consumer]++
			}
		}
	}
	got := map[fsm.Consumer]int{}
	p.State.Consumers(func(c fsm.Consumer, _ uint32, leases int) bool { got[c] += leases; return true })
	if !reflect.DeepEqual(wantConsumers, got) {
		fail("consumers: want %v, got %v", wantConsumers, got)
	}
	for c := range wantConsumers {
		var tokens []fsm.Token
		p.State.ConsumerLeases(c, func(t fsm.Token) bool { tokens = append(tokens, t); return true })
		if want := p.Model.ConsumerLeases(c); !reflect.DeepEqual(want, tokens) {
			fail("leases of consumer %v: want %v, got %v", c, want, tokens)
		}
	}
	for _, s := range p.Model.sessions {
		if want, got := p.Model.SessionKnown(s.id), p.State.SessionKnown(s.id); want != got {
			fail("session %s known: want %v, got %v", shortID(s.id), want, got)
		}
		for number := range s.outcomes {
			for _, n := range []uint64{number, number + 1} {
				r := fsm.Request{Session: s.id, Number: n, Low: s.low}
				if want, got := p.Model.Remembered(r), p.State.Remembered(r); want != got {
					fail("request %d of session %s remembered: want %v, got %v", n, shortID(s.id), want, got)
				}
			}
		}
	}
	return errors.Join(errs...)
}
