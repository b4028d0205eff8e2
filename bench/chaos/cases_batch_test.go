package chaos

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// Each item has its own outcome, in order; the good ones are done once, and doing it all again is safe. (C45)
func badItem(t *testing.T, cl *client.Client) {
	ctx := within(t, 3*time.Minute)
	create(t, cl, "batch", client.QueueOptions{})
	ms := make([]client.Message, 10)
	for i := range ms {
		ms[i] = client.Message{Body: []byte(fmt.Sprint(i)), TaskID: fmt.Sprint("task-", i)}
	}
	ms[3].Body = make([]byte, 1<<20+1)
	ms[6].Headers = []client.Header{{Name: "bad", Value: "\xff\xfe"}}
	for round := range 2 {
		rs, errs := cl.EnqueueBatch(ctx, "batch", ms)
		for i := range ms {
			switch {
			case i == 3:
				refused(t, "a body of 1 MiB and a byte", errs[i], client.ErrTooLarge)
			case i == 6:
				refused(t, "a header that is not UTF-8", errs[i], client.ErrInvalidArgument)
			case round == 0 && (errs[i] != nil || rs[i].TaskID != ms[i].TaskID || i > 0 && rs[i].ID <= rs[0].ID):
				t.Errorf("message %d: %+v, %v", i, rs[i], errs[i])
			case round == 1:
				refused(t, "a task id that is taken", errs[i], client.ErrAlreadyExists)
			}
		}
		counts(t, cl, "batch", [5]int64{0: 8})
	}
	ds, err := cl.Lease(ctx, "batch", client.LeaseOptions{Max: 10, Lease: time.Minute})
	if err != nil || len(ds) != 8 {
		t.Fatalf("leased %d, %v", len(ds), err)
	}
	tokens := make([]string, 0, 10)
	for i, d := range ds {
		if i == 4 {
			tokens = append(tokens, strings.Repeat("0", 52))
		}
		tokens = append(tokens, d.Token)
	}
	tokens = append(tokens, ds[0].Token) // repeated
	for range 2 {
		errs := make([]error, len(tokens))
		var wg sync.WaitGroup
		for i, tok := range tokens {
			wg.Add(1)
			if err := cl.AckAsync(ctx, tok, client.AckOptions{}, func(_ client.Acked, err error) { errs[i] = err; wg.Done() }); err != nil {
				t.Fatal(err)
			}
		}
		wg.Wait()
		for i, err := range errs {
			if i == 4 {
				refused(t, "a token of nothing", err, client.ErrNotFound)
			} else if err != nil {
				t.Errorf("ack %d: %v", i, err)
			}
		}
		if q := counts(t, cl, "batch", [5]int64{}); q.Totals["acked"] != 8 {
			t.Errorf("%d acked in all, want 8", q.Totals["acked"])
		}
	}
}

// The window runs from the first enqueue, whatever comes in between, by log time, to the millisecond. (C35, G8)
func dedupWindow(t *testing.T, cl *client.Client) {
	const window = time.Second // the least there is
	create(t, cl, "window", client.QueueOptions{DedupWindow: window})
	var first client.Receipt
	dups, news := 0, 0
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx := within(t, 3*time.Minute); news < 5; <-tick.C {
		r, err := cl.Enqueue(ctx, "window", client.Message{Body: []byte("same"), DedupKey: []byte("k")})
		if err != nil {
			t.Fatal(err)
		}
		inside := first.ID != "" && r.Time-first.Time <= window.Milliseconds() // G8: two messages are more than a window apart
		switch {
		case inside != r.Duplicate:
			t.Fatalf("%d ms after the first one duplicate is %v, want it for %d ms", r.Time-first.Time, r.Duplicate, window.Milliseconds())
		case r.Duplicate && r.ID != first.ID:
			t.Fatalf("the duplicate names %s, want %s", r.ID, first.ID)
		case r.Duplicate:
			dups++
		default:
			first = r
			news++
		}
	}
	if dups < 10 {
		t.Errorf("only %d duplicates were seen: the test shows little", dups)
	}
	counts(t, cl, "window", [5]int64{0: int64(news)})
}

// The scope of a dedup key is its queue: an ordering key does not divide it, and it covers body and kind. (C36)
func dedupScope(t *testing.T, cl *client.Client) {
	m := client.Message{Body: []byte("b"), Kind: "k", DedupKey: []byte("same")}
	one := put(t, cl, "scope1", m)
	two := put(t, cl, "scope2", m)
	if one.Duplicate || two.Duplicate || one.ID == two.ID {
		t.Errorf("two queues collide: %+v, %+v", one, two)
	}
	keyed := m
	keyed.Key = []byte("other ordering key")
	if r := put(t, cl, "scope1", keyed); !r.Duplicate || r.ID != one.ID {
		t.Errorf("under another ordering key: %+v, want a duplicate of %s", r, one.ID)
	}
	for what, m := range map[string]client.Message{
		"another body": {Body: []byte("c"), Kind: "k", DedupKey: []byte("same")},
		"another kind": {Body: []byte("b"), Kind: "l", DedupKey: []byte("same")},
	} {
		_, err := cl.Enqueue(within(t, 30*time.Second), "scope1", m)
		if e := refused(t, what, err, client.ErrAlreadyExists); e.ID != one.ID {
			t.Errorf("%s: the error names %q, want %s", what, e.ID, one.ID)
		}
	}
	ack(t, cl, take(t, cl, "scope1", time.Minute), "out")
	if r := put(t, cl, "scope1", m); !r.Duplicate || r.Result == nil || string(r.Result.Output) != "out" {
		t.Errorf("after the ack: %+v, want a duplicate with the result", r)
	}
}
