package transport

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/push"
	"github.com/quorate/quorate/wire"
)

func TestQueueAdmin(t *testing.T) {
	n := stations(t, 1, Config{NoAutoCreate: true})[0]
	p, _ := session(t, n.addr)
	var rep wire.Enqueued
	p.ask(wire.TypeEnqueue, one("x"), wire.TypeEnqueued, &rep)
	if f := rep.Outcomes[0].Fault; f == nil || f.Code != wire.CodeNotFound || !strings.Contains(f.Message, `queue "q"`) {
		t.Errorf("without auto_create: %+v", f)
	}
	options := wire.QueueOptions{
		LeaseMillis: 1000, Retry: &wire.RetryPolicy{Kind: wire.RetryExponential, InitialMillis: 10, MultiplierMilli: 1500, MaxMillis: 100, MaxAttempts: 7, JitterMillis: 3},
		MaxDead: 10, DeadOverflow: wire.DeadDropOldest, DeadRetentionMillis: 5000, DedupWindowMillis: 6000, DedupMaxKeys: 11,
		ResultTTLMillis: 7000, MaxResultsBytes: 1 << 20, Ordering: wire.OrderPerKey, MaxDepth: 12, MaxBytes: 1 << 30, MaxInFlight: 13, Paused: true, MaxAgeMillis: 8000,
		RatePerKeyMilli: 1500, BurstPerKey: 15, FairBy: wire.FairByKey,
		PushURL: "http://example.org/in", PushConcurrency: 3, PushTimeoutMillis: 1500, PushSecrets: []string{"new", "old"},
		PushPermanent: []int64{400, 410}, PushHeaders: []string{"a", "b"},
		RateMilli: 2500, Burst: 14, Overflow: wire.OverflowDropOldest, Delivery: wire.DeliverAtMostOnce,
	}
	write := &wire.QueueWrite{Queue: "q", Options: options, Request: wire.Request{Number: 1, Low: 1}}
	var ok wire.OK
	p.ask(wire.TypeQueueCreate, write, wire.TypeOK, &ok)
	write.Request = wire.Request{}
	p.ask(wire.TypeQueueCreate, write, wire.TypeOK, &ok)
	if !ok.Duplicate {
		t.Error("the same queue again is no duplicate")
	}
	p.refused(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "q"}, wire.CodeAlreadyExists)
	var is wire.QueueIs
	p.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, wire.TypeQueueIs, &is)
	got := is.Queue.Options
	if got.Retry == nil || got.Retry.Kind != wire.RetryExponential || got.Retry.MaxAttempts != 7 || got.Retry.JitterMillis != 3 {
		t.Errorf("retry is %+v", got.Retry)
	}
	got.Retry, options.Retry = nil, nil
	if !reflect.DeepEqual(got, options) {
		t.Errorf("options are %+v, want %+v", got, options)
	}
	p.ask(wire.TypeQueueSet, &wire.QueueWrite{Queue: "q"}, wire.TypeOK, &ok)
	p.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, wire.TypeQueueIs, &is)
	if o := is.Queue.Options; o.LeaseMillis != 30000 || o.Retry.Kind != wire.RetrySchedule || !slices.Equal(o.Retry.Steps, []int64{1000, 5000, 10000}) || o.DeadOverflow != wire.DeadRefuse {
		t.Errorf("defaults are %+v", o)
	}
	p.ask(wire.TypeQueueSet, &wire.QueueWrite{Queue: "q", Options: wire.QueueOptions{MaxDepth: 9, MaxBytes: 5}, Only: []string{"max_depth", "lease_ms"}}, wire.TypeOK, &ok)
	p.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, wire.TypeQueueIs, &is)
	if o := is.Queue.Options; o.MaxDepth != 9 || o.MaxBytes != 0 || o.LeaseMillis != 30000 {
		t.Errorf("after a change of max_depth and lease_ms: %+v", o)
	}
	for _, bad := range []struct {
		t    wire.Type
		w    wire.QueueWrite
		want string
	}{
		{wire.TypeQueueSet, wire.QueueWrite{Queue: "q", Only: []string{"max_deep"}}, "max_depth"},
		{wire.TypeQueueSet, wire.QueueWrite{Queue: "q", Options: wire.QueueOptions{Burst: 4}, Only: []string{"burst"}}, "other options"},
		{wire.TypeQueueCreate, wire.QueueWrite{Queue: "new", Only: []string{"burst"}}, "all of its options"},
	} {
		if f := p.refused(bad.t, &bad.w, wire.CodeInvalidArgument); !strings.Contains(f.Message, bad.want) {
			t.Errorf("only %v: %s", bad.w.Only, f.Message)
		}
	}
	for i := range 3 {
		p.enqueue("q", wire.Message{Body: wire.Bytes(fmt.Sprint(i))})
	}
	p.enqueue("q", wire.Message{DelayMillis: 60_000})
	d := p.pull("q")
	p.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, wire.TypeQueueIs, &is)
	if q := is.Queue; q.Pending != 2 || q.Processing != 1 || q.Scheduled != 1 || q.Totals["enqueued"] != 4 || q.Bytes == 0 {
		t.Errorf("counters are %+v", q)
	}
	var c wire.Counted
	p.ask(wire.TypeQueuePurge, &wire.QueueRef{Queue: "q"}, wire.TypeCounted, &c)
	if c.Count != 3 {
		t.Errorf("purged %d", c.Count)
	}
	var acked wire.Acked
	p.ask(wire.TypeAck, &wire.Ack{Token: d.Token}, wire.TypeAcked, &acked)
	p.ask(wire.TypeQueueDelete, &wire.QueueRef{Queue: "q"}, wire.TypeOK, &ok)
	p.refused(wire.TypeQueueDelete, &wire.QueueRef{Queue: "q"}, wire.CodeNotFound)
	p.refused(wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, wire.CodeNotFound)
	p.refused(wire.TypePeek, &wire.Peek{Queue: "q"}, wire.CodeNotFound)
	p.refused(wire.TypeDeadList, &wire.DeadList{Queue: "q"}, wire.CodeNotFound)
	p.refused(wire.TypeDeadGet, &wire.DeadGet{Queue: "q", ID: d.ID}, wire.CodeNotFound)
	p.refused(wire.TypeNack, &wire.Nack{Token: d.Token}, wire.CodeNotFound)
}

// Of a queue with a push URL it is said how its push stands, alone and in a listing.
func TestPushState(t *testing.T) {
	n := stations(t, 1, Config{PushState: func(queue string) push.State { return push.State{Text: "the push of " + queue} }})[0]
	p, _ := session(t, n.addr)
	var ok wire.OK
	p.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "a", Options: wire.QueueOptions{PushURL: "http://h"}}, wire.TypeOK, &ok)
	p.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "b"}, wire.TypeOK, &ok)
	var is wire.QueueIs
	p.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "a"}, wire.TypeQueueIs, &is)
	var all wire.Queues
	p.ask(wire.TypeQueueList, &wire.QueueList{}, wire.TypeQueues, &all)
	if is.Queue.Push != "the push of a" || len(all.Queues) != 2 || all.Queues[0].Push != "the push of a" || all.Queues[1].Push != "" {
		t.Errorf("shown %q, listed %+v", is.Queue.Push, all.Queues)
	}
}

// C64: names outside the alphabet are refused by one rule, everywhere.
func TestQueueNames(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	for _, name := range []string{"", "a/b", "a b", "../x", ".x", "%2e", "a#b", "a?b", "a\x00", "ü", strings.Repeat("x", 129), "a\n"} {
		for typ, req := range map[wire.Type]any{
			wire.TypeEnqueue:     &wire.Enqueue{Queue: name, Messages: []wire.Message{{}}},
			wire.TypeQueueCreate: &wire.QueueWrite{Queue: name},
			wire.TypeQueueDelete: &wire.QueueRef{Queue: name},
			wire.TypeQueueShow:   &wire.QueueRef{Queue: name},
			wire.TypeSubscribe:   &wire.Subscribe{Sub: 1, Queue: name, Credit: 1},
			wire.TypeLease:       &wire.Lease{Queue: name, Max: 1},
			wire.TypePeek:        &wire.Peek{Queue: name},
			wire.TypeDeadList:    &wire.DeadList{Queue: name},
			wire.TypeDeadRequeue: &wire.DeadIDs{Queue: name, IDs: []string{strings.Repeat("0", 26)}},
		} {
			if f := p.refused(typ, req, wire.CodeInvalidArgument); f.Field != "queue" {
				t.Errorf("type %d, name %q: %+v", typ, name, f)
			}
		}
	}
	for _, name := range []string{"a", "A.b_c:d-e", "0", strings.Repeat("x", 128)} {
		p.enqueue(name, wire.Message{})
	}
}

func TestListings(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	const queues, dead = 150, 230
	for i := range queues {
		p.enqueue(fmt.Sprintf("q%03d", i), wire.Message{})
	}
	t.Run("queues", func(t *testing.T) {
		var names []string
		after, pages := "", 0
		for {
			var rep wire.Queues
			p.ask(wire.TypeQueueList, &wire.QueueList{After: after}, wire.TypeQueues, &rep)
			for _, q := range rep.Queues {
				names = append(names, q.Name)
			}
			pages++
			if after = rep.Next; after == "" {
				break
			}
		}
		if len(names) != queues || !slices.IsSorted(names) || pages != 2 {
			t.Errorf("%d queues in %d pages", len(names), pages)
		}
		var rep wire.Queues
		p.ask(wire.TypeQueueList, &wire.QueueList{Limit: queues}, wire.TypeQueues, &rep)
		if len(rep.Queues) != queues || rep.Next != "" {
			t.Errorf("%d queues, next %q", len(rep.Queues), rep.Next)
		}
	})

	ids := make([]string, dead)
	for i := range ids {
		kind := "even"
		if i%2 == 1 {
			kind = "odd"
		}
		ids[i] = p.enqueue("d", wire.Message{Body: wire.Bytes{byte(i)}, Kind: kind})
	}
	t.Run("peek", func(t *testing.T) {
		var got []string
		after := ""
		for {
			var rep wire.Tasks
			p.ask(wire.TypePeek, &wire.Peek{Queue: "d", Limit: 100, After: after}, wire.TypeTasks, &rep)
			for _, task := range rep.Tasks {
				got = append(got, task.ID)
			}
			if after = rep.Next; after == "" {
				break
			}
		}
		if !slices.Equal(got, ids) {
			t.Errorf("peeked %d messages, or in another order", len(got))
		}
		p.refused(wire.TypePeek, &wire.Peek{Queue: "d", After: "x"}, wire.CodeInvalidArgument)
	})
	for range ids {
		d := p.pull("d")
		var rep wire.Nacked
		p.ask(wire.TypeNack, &wire.Nack{Token: d.Token, Permanent: true, Error: "no\x1b[31m good"}, wire.TypeNacked, &rep)
		if !rep.Dead {
			t.Fatalf("nacked %+v", rep)
		}
	}
	list := func(req wire.DeadList) (got []wire.Task) {
		t.Helper()
		req.Queue = "d"
		for {
			var rep wire.Tasks
			p.ask(wire.TypeDeadList, &req, wire.TypeTasks, &rep)
			got = append(got, rep.Tasks...)
			if req.After = rep.Next; req.After == "" {
				return got
			}
		}
	}
	t.Run("dead letters", func(t *testing.T) {
		all := list(wire.DeadList{Limit: 70})
		if len(all) != dead {
			t.Fatalf("%d dead letters", len(all))
		}
		for i, d := range all {
			if d.ID != ids[i] || d.Status != wire.StatusDead || d.Reason != "permanent" || d.Error != "no\x1b[31m good" || d.EndedAt == 0 ||
				len(d.History) != 1 || d.History[0].Worker != "w" || len(d.Body) != 1 || d.Body[0] != byte(i) || d.BodyBytes != 1 {
				t.Fatalf("dead letter %d is %+v", i, d)
			}
		}
		if odd := list(wire.DeadList{Kind: "odd", Limit: 7}); len(odd) != dead/2 {
			t.Errorf("%d odd ones", len(odd))
		}
		if none := list(wire.DeadList{Reason: "expired"}); len(none) != 0 {
			t.Errorf("%d expired ones", len(none))
		}
		since := all[100].EndedAt
		want := 0
		for _, d := range all {
			if d.EndedAt >= since {
				want++
			}
		}
		if late := list(wire.DeadList{Since: since}); len(late) != want || late[0].EndedAt < since {
			t.Errorf("%d since %d, want %d", len(late), since, want)
		}
		p.refused(wire.TypeDeadList, &wire.DeadList{Queue: "d", After: "1.x"}, wire.CodeInvalidArgument)
		var task wire.TaskIs
		p.ask(wire.TypeDeadGet, &wire.DeadGet{Queue: "d", ID: ids[3]}, wire.TypeTaskIs, &task)
		if task.Task.ID != ids[3] {
			t.Errorf("got %+v", task)
		}
		var is wire.ResultIs
		p.ask(wire.TypeResultGet, &wire.ResultGet{Task: wire.TaskRef{TaskID: ids[3]}, WaitMillis: 1000}, wire.TypeResultIs, &is)
		if is.Status != wire.StatusDead || is.Dead == nil || is.Dead.Reason != "permanent" || is.HasOutput {
			t.Errorf("got %+v", is)
		}
	})
	t.Run("requeue, delete, purge", func(t *testing.T) {
		missing := fsm.MakeID(1, 0, 1<<40, 0).String()
		var rep wire.Enqueued
		p.ask(wire.TypeDeadRequeue, &wire.DeadIDs{Queue: "d", IDs: []string{ids[0], missing}}, wire.TypeEnqueued, &rep)
		if len(rep.Outcomes) != 2 || rep.Outcomes[0].Fault != nil || rep.Outcomes[0].ID == ids[0] || rep.Outcomes[0].TaskID != ids[0] ||
			rep.Outcomes[1].Fault == nil || rep.Outcomes[1].Fault.Code != wire.CodeNotFound || !strings.Contains(rep.Outcomes[1].Fault.Message, "dead letter") {
			t.Errorf("requeued %+v", rep)
		}
		d := p.pull("d")
		if d.ID != rep.Outcomes[0].ID || d.Redrives != 1 || d.Attempt != 1 || d.TaskID != ids[0] {
			t.Errorf("got %+v", d)
		}
		p.ask(wire.TypeDeadDelete, &wire.DeadIDs{Queue: "d", IDs: []string{ids[1], missing}}, wire.TypeEnqueued, &rep)
		if len(rep.Outcomes) != 2 || rep.Outcomes[0].Fault != nil || rep.Outcomes[1].Fault == nil {
			t.Errorf("deleted %+v", rep)
		}
		p.refused(wire.TypeDeadGet, &wire.DeadGet{Queue: "d", ID: ids[1]}, wire.CodeNotFound)
		var c wire.Counted
		p.ask(wire.TypeDeadPurge, &wire.QueueRef{Queue: "d"}, wire.TypeCounted, &c)
		if c.Count != dead-2 {
			t.Errorf("purged %d", c.Count)
		}
	})
}

func TestBigBodiesInListings(t *testing.T) {
	n := stations(t, 1, Config{MaxMessageBytes: 2 << 20})[0]
	p, _ := session(t, n.addr)
	for range 5 {
		p.enqueue("q", wire.Message{Body: make(wire.Bytes, 2<<20)})
	}
	var rep wire.Tasks
	p.ask(wire.TypePeek, &wire.Peek{Queue: "q", Limit: 1000}, wire.TypeTasks, &rep)
	if len(rep.Tasks) != 2 || rep.Next == "" {
		t.Errorf("a page of %d messages of 2 MiB, next %q", len(rep.Tasks), rep.Next)
	}
	p.ask(wire.TypePeek, &wire.Peek{Queue: "q", Limit: 1000, After: rep.Next}, wire.TypeTasks, &rep)
	p.ask(wire.TypePeek, &wire.Peek{Queue: "q", Limit: 1000, After: rep.Next}, wire.TypeTasks, &rep)
	if len(rep.Tasks) != 1 || rep.Next != "" {
		t.Errorf("the last page has %d, next %q", len(rep.Tasks), rep.Next)
	}
	var leased wire.Leased
	p.ask(wire.TypeLease, &wire.Lease{Queue: "q", Max: 1000}, wire.TypeLeased, &leased)
	if len(leased.Messages) != 2 {
		t.Errorf("leased %d messages of 2 MiB", len(leased.Messages))
	}
}

// A listing that finds little looks at a bounded number of records a call, and says where to go on.
func TestPartialPages(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	id := p.enqueue("q", wire.Message{})
	d := p.pull("q")
	late := int64(3600_000)
	var nacked wire.Nacked
	p.ask(wire.TypeNack, &wire.Nack{Token: d.Token, DelayMillis: &late}, wire.TypeNacked, &nacked)
	batch := &wire.Enqueue{Queue: "q", Messages: make([]wire.Message, 1000)}
	for i := range batch.Messages {
		batch.Messages[i].DelayMillis = late / 2
	}
	for range fsm.ListLimit/1000 + 1 {
		var rep wire.Enqueued
		p.ask(wire.TypeEnqueue, batch, wire.TypeEnqueued, &rep)
		if rep.Outcomes[0].Fault != nil {
			t.Fatal(rep.Outcomes[0].Fault)
		}
	}
	req := &wire.Peek{Queue: "q", State: wire.StatusRetrying}
	var rep wire.Tasks
	pages := 0
	var found []string
	for {
		p.ask(wire.TypePeek, req, wire.TypeTasks, &rep)
		pages++
		for _, task := range rep.Tasks {
			found = append(found, task.ID)
		}
		if req.After = rep.Next; req.After == "" {
			break
		}
	}
	if pages != 2 || !slices.Equal(found, []string{id}) {
		t.Errorf("found %v in %d pages", found, pages)
	}
}
