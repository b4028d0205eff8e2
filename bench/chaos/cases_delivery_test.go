package chaos

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// Leases, tokens and what is answered to those who come late, on three nodes.
func TestLeases(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	for name, test := range map[string]func(*testing.T, *client.Client){
		"a slow worker's late answers change nothing":        slowWorker,
		"an expired lease is acked while nobody else has it": lateAck,
		"a release leaves the ack open":                      ackAfterRelease,
		"leases end with nobody polling":                     unpolled,
		"waiting retries take no credit":                     retriesTakeNoCredit,
		"the last attempt is followed by the dead letters":   lastAttempt,
		"a lower maximum holds at the next failure":          lowerMaximum,
		"drains cost no attempt":                             drains,
		"a long task runs once":                              longTask,
		"a panic, a hang and a longer timeout":               panicHangTimeout,
		"what extend means and how far":                      extend,
		"work whose message is gone":                         gone,
		"one bad item of a batch":                            badItem,
		"a delay longer than the lease":                      longDelay,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, cl) })
	}
	t.Run("dedup window", func(t *testing.T) { t.Parallel(); dedupWindow(t, cl) })
	t.Run("dedup scope", func(t *testing.T) { t.Parallel(); dedupScope(t, cl) })
}

// The second worker's result stands; the first is refused by its token, before and after. Repeating the ack that won is
// the same success; another result with it is not. (C27, G4, G5)
func slowWorker(t *testing.T, cl *client.Client) {
	create(t, cl, "slow", client.QueueOptions{Retry: fixed(50*time.Millisecond, 3)})
	r := put(t, cl, "slow", client.Message{})
	first := take(t, cl, "slow", 200*time.Millisecond)
	second := take(t, cl, "slow", time.Minute)
	if second.ID != r.ID || second.Attempt != 2 || second.Token <= first.Token {
		t.Fatalf("second delivery is attempt %d of %s with token %s after %s, want attempt 2 of %s with a greater one", second.Attempt, second.ID, second.Token, first.Token, r.ID)
	}
	stale(t, cl, "the token of a lost lease", first.Token, client.ErrLeaseLost)
	ack(t, cl, second, "second")
	stale(t, cl, "the token of a lost lease of a done task", first.Token, client.ErrLeaseLost)
	if a := ack(t, cl, second, "second"); a.Duplicate {
		t.Error("the same ack again is called a duplicate, want the same success")
	}
	_, err := cl.Ack(within(t, 30*time.Second), second.Token, client.AckOptions{Result: &client.Result{Output: []byte("other")}})
	if e := refused(t, "the same token with another result", err, client.ErrAlreadyExists); e.Result == nil || string(e.Result.Output) != "second" {
		t.Errorf("it carries %+v, want the recorded result", e.Result)
	}
	res, err := cl.Result(within(t, 30*time.Second), "", r.ID)
	if err != nil || res.Result == nil || string(res.Result.Output) != "second" || res.Result.Attempts != 2 {
		t.Errorf("result %+v, %v, want the second worker's, of two attempts", res, err)
	}
	counts(t, cl, "slow", [5]int64{})
}

// (C28; across a change of leader in TestLeaderChanges)
func lateAck(t *testing.T, cl *client.Client) {
	create(t, cl, "late", client.QueueOptions{Retry: fixed(time.Hour, 3)})
	r := put(t, cl, "late", client.Message{})
	d := take(t, cl, "late", 100*time.Millisecond)
	becomes(t, cl, r.ID, "retrying")
	ctx := within(t, 30*time.Second)
	_, err := cl.Nack(ctx, d.Token, client.NackOptions{})
	refused(t, "nack after expiry", err, client.ErrLeaseLost)
	_, err = cl.Extend(ctx, d.Token, time.Minute)
	refused(t, "extend after expiry", err, client.ErrLeaseLost)
	refused(t, "release after expiry", cl.Release(ctx, d.Token), client.ErrLeaseLost)
	ack(t, cl, d, "late")
	counts(t, cl, "late", [5]int64{})
	if res, err := cl.Result(ctx, "", r.ID); err != nil || string(res.Result.Output) != "late" {
		t.Errorf("result %+v, %v", res, err)
	}

	// After the last attempt it is dead, and stays so.
	r = put(t, cl, "late", client.Message{Retry: fixed(time.Second, 1)})
	d = take(t, cl, "late", 100*time.Millisecond)
	becomes(t, cl, r.ID, "dead")
	_, err = cl.Ack(ctx, d.Token, client.AckOptions{})
	refused(t, "ack of a message that died of its lease's end", err, client.ErrLeaseLost)
	counts(t, cl, "late", [5]int64{4: 1})
}

// (C28)
func ackAfterRelease(t *testing.T, cl *client.Client) {
	r := put(t, cl, "released", client.Message{})
	d := take(t, cl, "released", time.Minute)
	for range 2 { // the second is the same success
		if err := cl.Release(within(t, 30*time.Second), d.Token); err != nil {
			t.Fatal(err)
		}
	}
	counts(t, cl, "released", [5]int64{0: 1})
	again := take(t, cl, "released", time.Minute)
	if again.Attempt != 1 {
		t.Errorf("after a release it is attempt %d, want 1", again.Attempt)
	}
	stale(t, cl, "the token of a released lease of a message that is out again", d.Token, client.ErrLeaseLost)
	if err := cl.Release(within(t, 30*time.Second), again.Token); err != nil {
		t.Fatal(err)
	}
	ack(t, cl, again, "done all the same")
	if res, err := cl.Result(within(t, 30*time.Second), "", r.ID); err != nil || string(res.Result.Output) != "done all the same" {
		t.Errorf("result %+v, %v", res, err)
	}
	counts(t, cl, "released", [5]int64{})
}

// (C29)
func unpolled(t *testing.T, cl *client.Client) {
	create(t, cl, "unpolled", client.QueueOptions{Retry: fixed(50*time.Millisecond, 2)})
	for range 5 {
		put(t, cl, "unpolled", client.Message{})
	}
	lease := func() {
		ds, err := cl.Lease(within(t, 30*time.Second), "unpolled", client.LeaseOptions{Max: 5, Lease: 300 * time.Millisecond})
		if err != nil || len(ds) != 5 {
			t.Fatalf("leased %d, %v, want five", len(ds), err)
		}
	}
	lease()
	eventually(t, 10*time.Second, "all five are ready again", func(ctx context.Context) bool {
		q, err := cl.Queue(ctx, "unpolled")
		return err == nil && q.Pending == 5
	})
	counts(t, cl, "unpolled", [5]int64{0: 5})
	lease()
	eventually(t, 10*time.Second, "all five are dead", func(ctx context.Context) bool {
		q, err := cl.Queue(ctx, "unpolled")
		return err == nil && q.Dead == 5
	})
	counts(t, cl, "unpolled", [5]int64{4: 5})
}

// (C30)
func retriesTakeNoCredit(t *testing.T, cl *client.Client) {
	for range 4 {
		put(t, cl, "credit", client.Message{})
	}
	got := make(chan *client.Delivery, 16)
	sub, err := cl.Subscribe(within(t, 30*time.Second), "credit", client.SubscribeOptions{Credit: 2, Lease: time.Minute}, func(d *client.Delivery) { got <- d })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close(within(t, 30*time.Second))
	ctx := within(t, 30*time.Second)
	for i := range 4 {
		select {
		case d := <-got:
			if i < 2 {
				nack(t, cl, d, time.Hour)
			}
		case <-ctx.Done():
			t.Fatalf("%d deliveries, want four: two that wait for their retry must not take the window", i)
		}
	}
	counts(t, cl, "credit", [5]int64{1: 2, 3: 2})
}

// (C31, C54)
func lastAttempt(t *testing.T, cl *client.Client) {
	create(t, cl, "last", client.QueueOptions{Retry: fixed(10*time.Millisecond, 2)})
	r := put(t, cl, "last", client.Message{})
	for range 2 {
		take(t, cl, "last", 100*time.Millisecond)
	}
	d := becomes(t, cl, r.ID, "dead")
	if d.Reason != "max_attempts" || d.Error != "lease expired" || d.Attempts != 2 || len(d.History) != 2 {
		t.Errorf("dead letter %+v, want reason max_attempts, error \"lease expired\", two attempts", d)
	}
	q := counts(t, cl, "last", [5]int64{4: 1})
	if q.Bytes != 0 {
		t.Errorf("%d bytes are live in a queue without live messages", q.Bytes)
	}
}

// Options apply at once to all messages, since policies are read when a decision is made. (C31)
func lowerMaximum(t *testing.T, cl *client.Client) {
	create(t, cl, "lower", client.QueueOptions{Retry: fixed(time.Hour, 10)})
	var ids []string
	for range 2 {
		ids = append(ids, put(t, cl, "lower", client.Message{}).ID)
		for range 3 {
			nack(t, cl, take(t, cl, "lower", time.Minute), 0)
		}
		nack(t, cl, take(t, cl, "lower", time.Minute), 6*time.Second) // longer than it takes to have the second one there
	}
	if err := cl.SetQueue(within(t, 30*time.Second), "lower", client.QueueOptions{Retry: fixed(time.Hour, 2)}); err != nil {
		t.Fatal(err)
	}
	if n := nack(t, cl, take(t, cl, "lower", time.Minute), -1); !n.Dead {
		t.Errorf("a nack of the fifth attempt of two answers %+v, want dead", n)
	}
	take(t, cl, "lower", 100*time.Millisecond) // and one by expiry
	for _, id := range ids {
		if d := becomes(t, cl, id, "dead"); d.Reason != "max_attempts" || d.Attempts != 5 {
			t.Errorf("dead letter has reason %q and %d attempts, want max_attempts and 5", d.Reason, d.Attempts)
		}
	}
	counts(t, cl, "lower", [5]int64{4: 2})
}

// The new end is now + d, never beyond the message's timeout, which runs from the lease. Each misuse has its error. (C41)
func extend(t *testing.T, cl *client.Client) {
	ctx := within(t, 3*time.Minute)
	create(t, cl, "extend", client.QueueOptions{Lease: 40 * time.Second, Retry: fixed(10*time.Millisecond, 5)})
	r := put(t, cl, "extend", client.Message{})
	d := take(t, cl, "extend", 10*time.Second)
	for _, tc := range []struct {
		name  string
		d     time.Duration
		most  time.Duration
		least time.Duration
		field string
	}{
		{"longer", 60 * time.Second, 60 * time.Second, 50 * time.Second, ""},
		{"shorter", 20 * time.Second, 20 * time.Second, 10 * time.Second, ""},
		{"0 is the queue's lease", 0, 40 * time.Second, 30 * time.Second, ""},
		{"negative", -time.Second, 0, 0, "lease_ms"},
		{"below the least lease", 50 * time.Millisecond, 0, 0, "lease_ms"},
		{"beyond the greatest", 12*time.Hour + time.Millisecond, 0, 0, "lease_ms"},
		{"the greatest", 12 * time.Hour, 12 * time.Hour, 12*time.Hour - 10*time.Second, ""},
	} {
		x, err := cl.Extend(ctx, d.Token, tc.d)
		if tc.field != "" {
			if e := refused(t, tc.name, err, client.ErrInvalidArgument); e.Field != tc.field {
				t.Errorf("%s: the error names field %q, want %q: %v", tc.name, e.Field, tc.field, err)
			}
			continue
		}
		if err != nil || x.Left > tc.most || x.Left < tc.least {
			t.Errorf("%s: %s left, %v, want %s to %s", tc.name, x.Left, err, tc.least, tc.most)
		}
		if got := task(t, cl, r.ID); got.Status != "processing" || got.Attempts != 1 {
			t.Errorf("%s: the task is %s at attempt %d", tc.name, got.Status, got.Attempts)
		}
	}
	if _, err := cl.Extend(ctx, d.Token, 200*time.Millisecond); err != nil { // shorter than what is left: it takes effect
		t.Fatal(err)
	}
	again := take(t, cl, "extend", time.Minute)
	if again.Attempt != 2 {
		t.Errorf("attempt %d after a lease cut short, want 2", again.Attempt)
	}
	_, err := cl.Extend(ctx, d.Token, time.Minute)
	refused(t, "an old token", err, client.ErrLeaseLost)
	ack(t, cl, again, "x")
	_, err = cl.Extend(ctx, again.Token, time.Minute)
	refused(t, "a done task", err, client.ErrLeaseLost)
	_, err = cl.Extend(ctx, strings.Repeat("0", 52), time.Minute)
	refused(t, "a token of nothing", err, client.ErrNotFound)
	_, err = cl.Extend(ctx, "nonsense", time.Minute)
	refused(t, "no token at all", err, client.ErrInvalidArgument)

	put(t, cl, "extend", client.Message{Timeout: 10 * time.Second})
	d = take(t, cl, "extend", 8*time.Second)
	if x, err := cl.Extend(ctx, d.Token, time.Hour); err != nil || x.Left > 10*time.Second || x.Left < time.Second/2 {
		t.Errorf("with a timeout of 10 s: %s left, %v", x.Left, err)
	}
	begin := time.Now()
	second := take(t, cl, "extend", time.Minute)
	if since := time.Since(begin); second.Attempt != 2 || since > 25*time.Second {
		t.Errorf("attempt %d came %s after, want 2 within the timeout", second.Attempt, since)
	}
}

// What is out when a queue is purged stays; when the queue is deleted, or the dead letter, its token is of nothing, and the
// counters say so. (C42)
func gone(t *testing.T, cl *client.Client) {
	ctx := within(t, 3*time.Minute)
	create(t, cl, "gone", client.QueueOptions{Retry: fixed(time.Millisecond, 3)})
	for range 3 {
		put(t, cl, "gone", client.Message{})
	}
	put(t, cl, "gone", client.Message{Delay: time.Hour})
	out, back := take(t, cl, "gone", time.Minute), take(t, cl, "gone", time.Minute)
	if n, err := cl.PurgeQueue(ctx, "gone"); err != nil || n != 2 {
		t.Errorf("purged %d, %v, want the ready and the scheduled one", n, err)
	}
	counts(t, cl, "gone", [5]int64{1: 2})
	nack(t, cl, back, 0)
	if d := take(t, cl, "gone", time.Minute); d.ID != back.ID || d.Attempt != 2 {
		t.Errorf("came back as %s attempt %d, want %s attempt 2", d.ID, d.Attempt, back.ID)
	} else {
		ack(t, cl, d, "")
	}
	ack(t, cl, out, "out at a purge")
	counts(t, cl, "gone", [5]int64{})

	var held []*client.Delivery
	for range 4 {
		put(t, cl, "gone", client.Message{})
		held = append(held, take(t, cl, "gone", time.Minute))
	}
	if err := cl.DeleteQueue(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	for _, d := range held {
		stale(t, cl, "a token of a deleted queue", d.Token, client.ErrNotFound)
	}
	_, err := cl.Queue(ctx, "gone")
	refused(t, "stats of a deleted queue", err, client.ErrNotFound)
	put(t, cl, "gone", client.Message{}) // created again, empty
	counts(t, cl, "gone", [5]int64{0: 1})
	stale(t, cl, "a token of a queue deleted and made again", held[0].Token, client.ErrNotFound)

	dead := take(t, cl, "gone", time.Minute)
	if _, err := cl.Nack(ctx, dead.Token, client.NackOptions{Permanent: true}); err != nil {
		t.Fatal(err)
	}
	if errs := cl.DeleteDead(ctx, "gone", dead.ID); errs[0] != nil {
		t.Fatal(errs[0])
	}
	refused(t, "a dead letter deleted twice", cl.DeleteDead(ctx, "gone", dead.ID)[0], client.ErrNotFound)
	stale(t, cl, "a token of a deleted dead letter", dead.Token, client.ErrNotFound)
	counts(t, cl, "gone", [5]int64{})
}

// A message delayed, or retried, for longer than a lease comes once, and not before its time. (C51)
func longDelay(t *testing.T, cl *client.Client) {
	const wait = 5 * time.Second
	create(t, cl, "delay", client.QueueOptions{Lease: 100 * time.Millisecond})
	put(t, cl, "delay", client.Message{Body: []byte("retried")})
	nack(t, cl, take(t, cl, "delay", 0), wait)
	put(t, cl, "delay", client.Message{Body: []byte("delayed"), Delay: wait})
	begin := time.Now()
	counts(t, cl, "delay", [5]int64{2: 1, 3: 1})
	got := make(chan *client.Delivery, 16)
	sub, err := cl.Subscribe(within(t, 30*time.Second), "delay", client.SubscribeOptions{Lease: time.Minute}, func(d *client.Delivery) { got <- d })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close(within(t, 30*time.Second))
	ctx := within(t, 3*time.Minute)
	for range 2 {
		select {
		case d := <-got:
			// The leader's clock may be up to 5 % faster than this one.
			if since := time.Since(begin); string(d.Body) == "delayed" && since < wait*94/100-50*time.Millisecond {
				t.Errorf("%s came after %s, want %s", d.Body, since, wait)
			}
			ack(t, cl, d, "")
		case <-ctx.Done():
			t.Fatal("not both were delivered")
		}
	}
	if q := counts(t, cl, "delay", [5]int64{}); q.Totals["expired"] > 0 || len(got) > 0 {
		t.Errorf("%d leases expired, %d deliveries too many; want neither", q.Totals["expired"], len(got))
	}
}
