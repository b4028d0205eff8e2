package fsmtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/fsm"
)

// compareTables compares what belongs to the group and not to one queue: the KV, batches, schedules.
func (p *Pair) compareTables() error {
	m, mem := p.Model, p.State.Memory()
	type counts struct{ keys, deletions, hooks, batches, schedules int64 }
	stats := m.KVStats()
	want := counts{stats.Keys, stats.Deletions, int64(len(m.hooks)), int64(len(m.batches)), int64(len(m.schedules))}
	var err error
	if got := (counts{mem.KVKeys, mem.KVDeletions, mem.Hooks, mem.Batches, mem.Schedules}); want != got {
		err = fmt.Errorf("memory: want %+v, got %+v", want, got)
	}
	return errors.Join(err, p.compareKV(), p.compareBatches(), p.compareSchedules(), p.compareIdems())
}

// kvPrefixes are those under which keys are listed.
var kvPrefixes = [][]string{nil, {"a"}, {"a", "b"}, {""}, {"none"}}

func (p *Pair) compareKV() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("kv: "+format, args...)) }
	want, got := p.Model.KVStats(), p.State.KVStats()
	want.Bytes = got.Bytes // the model does not count them
	if want != got {
		fail("stats: want %+v, got %+v", want, got)
	}
	if got.Keys+got.Deletions+got.Reserved == 0 && got.Values != 0 {
		fail("%d values are held for nothing", got.Values)
	}
	if at := p.State.KVPosition(); at != want.Position {
		fail("position: want %d, got %d", want.Position, at)
	}
	for _, prefix := range kvPrefixes {
		list := p.Model.KVList(prefix)
		if diff := kvDiff(list, p.kvList(prefix)); diff != "" {
			fail("list under %q: %s", prefix, diff)
		}
		for _, after := range []uint64{0, want.Oldest, want.Oldest + (want.Position-want.Oldest)/2, want.Position, want.Position + 1} {
			changes, wantOK := p.Model.KVChanges(prefix, after)
			var seen []fsm.KVEntry
			upTo, ok := p.State.KVChanges(fsm.AppendKVKey(nil, prefix...), after, func(e *fsm.KVEntry) bool {
				seen = append(seen, keepKV(e))
				return true
			})
			if ok != wantOK || ok && upTo != want.Position {
				fail("changes under %q behind %d: want %v up to %d, got %v up to %d", prefix, after, wantOK, want.Position, ok, upTo)
			}
			if diff := kvDiff(changes, seen); diff != "" {
				fail("changes under %q behind %d: %s", prefix, after, diff)
			}
		}
	}
	for _, r := range p.Model.kv.records {
		var e fsm.KVEntry
		ok := p.State.KVGet(r.key, &e)
		if living := !r.deleted && !p.Model.ended(r.end); ok != living {
			fail("key %q: want found %v, got %v", r.key, living, ok)
		} else if ok {
			if diff := fieldDiff(r.entry(), e); diff != "" {
				fail("key %q:%s", r.key, diff)
			}
		}
	}
	return errors.Join(errs...)
}

// kvList lists keys in pages.
func (p *Pair) kvList(prefix []string) (list []fsm.KVEntry) {
	for page := 2; ; page *= 2 {
		got := 0
		var after []byte
		if len(list) > 0 {
			after = list[len(list)-1].Key
		}
		p.State.KVList(fsm.AppendKVKey(nil, prefix...), after, func(e *fsm.KVEntry) bool {
			list = append(list, keepKV(e))
			got++
			return got < page
		})
		if got < page {
			return list
		}
	}
}

func keepKV(e *fsm.KVEntry) fsm.KVEntry {
	c := *e
	c.Key, c.Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
	return c
}

func kvDiff(want, got []fsm.KVEntry) string {
	if len(want) != len(got) {
		return fmt.Sprintf("want %d, got %d", len(want), len(got))
	}
	for i := range want {
		if diff := fieldDiff(want[i], got[i]); diff != "" {
			return fmt.Sprintf("number %d:%s", i, diff)
		}
	}
	return ""
}

func (p *Pair) compareBatches() error {
	for _, b := range p.Model.batches {
		want, wantOK := p.Model.Batch(b.id)
		var got fsm.BatchInfo
		if ok := p.State.Batch(b.id, &got); ok != wantOK || ok && want != got {
			return fmt.Errorf("batch %s:\n  want %v %+v\n  got  %v %+v", shortID(b.id), wantOK, want, ok, got)
		}
	}
	return nil
}

func (p *Pair) compareSchedules() error {
	m, s := p.Model, p.State
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("schedules: "+format, args...)) }
	list := m.Schedules()
	var names, gotNames []string
	total := fsm.ScheduleTotals{Count: int64(len(list))}
	for _, want := range list {
		names = append(names, want.Name)
		got, ok := s.Schedule([]byte(want.Name))
		if !ok {
			fail("%q is not found", want.Name)
			continue
		}
		if want.Code == fsm.QueueFull && got.Code == fsm.QueueFull && m.asRight(want.Field, got.Field) {
			got.Field = want.Field
		}
		message := fieldDiff(want.Message, got.Message)
		want.Message, got.Message = fsm.Message{}, fsm.Message{}
		if diff := fieldDiff(want, got); diff+message != "" {
			fail("%q:%s%s", want.Name, diff, message)
		}
		total.Fired += want.Fired
		total.Skipped += want.Skipped
		total.Refused += want.Refused
	}
	s.Schedules("", func(in *fsm.ScheduleInfo) bool { gotNames = append(gotNames, in.Name); return true })
	if !slices.Equal(names, gotNames) {
		fail("want %q, got %q", names, gotNames)
	}
	totals := s.ScheduleTotals()
	if (totals.Bytes == 0) != (total.Count == 0) || totals.Bytes != s.Memory().ScheduleBytes {
		fail("%d of them take %d bytes", total.Count, totals.Bytes)
	}
	total.Bytes = totals.Bytes // the model does not count them
	if total != totals {
		fail("totals: want %+v, got %+v", total, totals)
	}
	var first int64
	asked := false
	for _, x := range m.schedules {
		if at := x.dueAt(); at > 0 && (!asked || at < first) {
			first, asked = at, true
		}
	}
	if at, ok := s.NextSchedule(); ok != asked || ok && at != first {
		fail("next one to plan or fire: want %d %v, got %d %v", first, asked, at, ok)
	}
	for _, now := range []int64{m.t - 1, m.t, m.t + 60_000} {
		var want, got []string
		for _, x := range m.schedules {
			if at := x.dueAt(); at > 0 && at <= now {
				want = append(want, string(x.def.Name))
			}
		}
		s.DueSchedules(now, func(in *fsm.ScheduleInfo) bool { got = append(got, in.Name); return true })
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			fail("to plan or fire at T%+d: want %q, got %q", now-m.t, want, got)
		}
	}
	return errors.Join(errs...)
}

// compareResults compares a queue's results in the order of recording, all of them and those behind some place.
func (p *Pair) compareResults(name string, n uint32) error {
	var want []fsm.RecordedResult
	for _, r := range p.Model.queue(name).records {
		if r.hasResult && !p.Model.ended(r.end) {
			want = append(want, r.recorded(name))
		}
	}
	last := uint64(0)
	if len(want) > 0 {
		last = want[len(want)-1].Seq
	}
	if got := p.State.QueueResult(n); got != last {
		return fmt.Errorf("last result: want %d, got %d", last, got)
	}
	if got := p.State.LastResult(); got != p.Model.results {
		return fmt.Errorf("last result of the group: want %d, got %d", p.Model.results, got)
	}
	for _, from := range []int{0, len(want) / 3, len(want) - 1, len(want)} {
		if from < 0 {
			continue
		}
		after := uint64(0)
		if from > 0 {
			after = want[from-1].Seq
		}
		got := p.resultsAll(n, after)
		if len(got) != len(want)-from {
			return fmt.Errorf("results behind %d: want %d, got %d", after, len(want)-from, len(got))
		}
		for i := range got {
			if diff := fieldDiff(want[from+i], got[i]); diff != "" {
				return fmt.Errorf("result %d behind %d:%s", i, after, diff)
			}
		}
	}
	return nil
}

// resultsAll lists results in pages.
func (p *Pair) resultsAll(n uint32, after uint64) (list []fsm.RecordedResult) {
	for page := 3; ; page *= 2 {
		got := 0
		p.State.Results(n, after, func(r *fsm.RecordedResult) bool {
			c := *r
			for _, b := range []*[]byte{&c.TaskID, &c.Kind, &c.ContentType, &c.Output, &c.Worker} {
				*b = bytes.Clone(*b)
			}
			list = append(list, c)
			after = c.Seq
			got++
			return got < page
		})
		if got < page {
			return list
		}
	}
}

// compareTold compares what the leader is told of results, of the KV, and of leases whose tasks were cancelled.
func (p *Pair) compareTold(want *fsm.Effects) error {
	var errs []error
	if want.KV != p.fx.KV {
		errs = append(errs, fmt.Errorf("the KV has changed: want %v, got %v", want.KV, p.fx.KV))
	}
	told := map[string]int{}
	for _, n := range p.fx.Results {
		told[p.State.QueueName(n)]++
	}
	for _, q := range p.Model.recorded {
		if p.Model.queue(q.name) == q && told[q.name] != 1 {
			errs = append(errs, fmt.Errorf("queue %s recorded results and was told %d times", q.name, told[q.name]))
		}
	}
	if !slices.Equal(want.Cancelled, p.fx.Cancelled) {
		errs = append(errs, fmt.Errorf("leases of cancelled tasks: want %+v, got %+v", want.Cancelled, p.fx.Cancelled))
	}
	return errors.Join(errs...)
}
