package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// Retries, their waits, and dead letters, on three nodes.
func TestRetriesAndDeadLetters(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	for name, test := range map[string]func(*testing.T, *client.Client){
		"every way to fail waits as the policy says": everyWait,
		"waits never fall and never pass the cap":    monotoneWaits,
		"exactly max_attempts runs":                  exactAttempts,
		"jitter spreads and is what the page says":   jitter,
		"max_dead holds exactly":                     func(t *testing.T, cl *client.Client) { maxDead(t, cl, impatient(t, c.Addrs()...)) },
		"a dead letter's whole life":                 redrive,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, cl) })
	}
	t.Run("the attempt is the same at every door", func(t *testing.T) { t.Parallel(); attemptEverywhere(t, c.Addrs(), cl) })
}

// burn fails n attempts of the only message of a queue, each retried at once.
func burn(t *testing.T, cl *client.Client, queue string, n int) {
	t.Helper()
	for range n {
		nack(t, cl, take(t, cl, queue, time.Minute), 0)
	}
}

// waited is how long after its last failure, in log time, a task is due: exact to the millisecond.
func waited(t *testing.T, k *client.Task) time.Duration {
	t.Helper()
	if len(k.History) == 0 || k.DueAt.IsZero() {
		t.Fatalf("task %+v has no failed attempt or is not due", k)
	}
	return k.DueAt.Sub(k.History[len(k.History)-1].At)
}

// {nack, nack with a wait, nack without one, lease expiry} at each attempt of a schedule: each cell exactly, by log time.
// (C46)
func everyWait(t *testing.T, cl *client.Client) {
	steps := []time.Duration{20 * time.Second, 40 * time.Second, 80 * time.Second}
	for name, how := range map[string]struct {
		wait time.Duration // −1: by the policy
		fail func(t *testing.T, d *client.Delivery) time.Time
	}{
		"nack":             {-1, func(t *testing.T, d *client.Delivery) time.Time { return nack(t, cl, d, -1).DueAt }},
		"nack with a wait": {33 * time.Second, func(t *testing.T, d *client.Delivery) time.Time { return nack(t, cl, d, 33*time.Second).DueAt }},
		"expiry":           {-1, nil},
	} {
		for n := 1; n <= 4; n++ {
			t.Run(fmt.Sprintf("%s of attempt %d", name, n), func(t *testing.T) {
				t.Parallel()
				queue := fmt.Sprintf("wait-%d-%d", len(name), n)
				create(t, cl, queue, client.QueueOptions{Retry: &client.RetryPolicy{Kind: "schedule", Steps: steps}})
				r := put(t, cl, queue, client.Message{})
				burn(t, cl, queue, n-1)
				lease := time.Minute
				if how.fail == nil {
					lease = 200 * time.Millisecond
				}
				d := take(t, cl, queue, lease)
				if d.Attempt != n {
					t.Fatalf("attempt %d, want %d", d.Attempt, n)
				}
				var due time.Time
				if how.fail != nil {
					due = how.fail(t, d)
				}
				if n == 4 { // the last: no wait brings it back
					k := becomes(t, cl, r.ID, "dead")
					if k.Attempts != 4 || k.Reason != "max_attempts" || !due.IsZero() {
						t.Errorf("after the last attempt: %+v, due %s", k, due)
					}
					return
				}
				want := how.wait
				if want < 0 {
					want = steps[n-1]
				}
				k := becomes(t, cl, r.ID, "retrying")
				if got := waited(t, k); got != want {
					t.Errorf("waits %s, want %s", got, want)
				}
				if how.fail != nil && !due.Equal(k.DueAt) {
					t.Errorf("the nack answers %s, the task is due %s", due, k.DueAt)
				}
			})
		}
	}
	t.Run("nack without a wait is ready at once", func(t *testing.T) {
		t.Parallel()
		create(t, cl, "wait-0", client.QueueOptions{Retry: &client.RetryPolicy{Kind: "schedule", Steps: steps}})
		put(t, cl, "wait-0", client.Message{})
		nack(t, cl, take(t, cl, "wait-0", time.Minute), 0)
		begin := time.Now()
		if d := take(t, cl, "wait-0", time.Minute); d.Attempt != 2 || time.Since(begin) > 15*time.Second {
			t.Errorf("attempt %d after %s, want 2 at once", d.Attempt, time.Since(begin))
		}
	})
	t.Run("what waits comes back by itself when it is due", func(t *testing.T) {
		t.Parallel()
		r := put(t, cl, "wait-real", client.Message{Retry: fixed(time.Second, 3)})
		nack(t, cl, take(t, cl, "wait-real", time.Minute), -1)
		begin := time.Now()
		d := take(t, cl, "wait-real", time.Minute)
		if since := time.Since(begin); d.ID != r.ID || d.Attempt != 2 || since < 890*time.Millisecond-50*time.Millisecond {
			t.Errorf("attempt %d after %s, want 2 after 1 s", d.Attempt, since)
		}
	})
}

// Growth ends at the cap whatever the number of the attempt: no overflow, no hot loop. Policies outside the contract are
// refused, naming the field. (C47)
func monotoneWaits(t *testing.T, cl *client.Client) {
	const attempts = 70
	for name, tc := range map[string]struct {
		policy client.RetryPolicy
		want   func(n int) time.Duration
	}{
		"factor-2": {client.RetryPolicy{Kind: "exponential", Initial: time.Minute, Multiplier: 2, Max: 100 * 24 * time.Hour, MaxAttempts: 1000},
			func(n int) time.Duration { return min(time.Minute<<min(n-1, 30), 100*24*time.Hour) }},
		"factor-100": {client.RetryPolicy{Kind: "exponential", Initial: time.Minute, Multiplier: 100, Max: 366 * 24 * time.Hour, MaxAttempts: 1000},
			func(n int) time.Duration {
				return map[int]time.Duration{1: time.Minute, 2: 100 * time.Minute, 3: 10_000 * time.Minute}[n] + map[bool]time.Duration{true: 366 * 24 * time.Hour}[n > 3]
			}},
		"factor-1":       {client.RetryPolicy{Kind: "exponential", Initial: time.Minute, Multiplier: 1, Max: time.Hour, MaxAttempts: 1000}, func(int) time.Duration { return time.Minute }},
		"cap-below-base": {client.RetryPolicy{Kind: "exponential", Initial: time.Hour, Multiplier: 2, Max: time.Minute, MaxAttempts: 1000}, func(int) time.Duration { return time.Minute }},
		"linear":         {client.RetryPolicy{Kind: "linear", Initial: time.Minute, Max: 20 * time.Minute, MaxAttempts: 1000}, func(n int) time.Duration { return time.Duration(min(n, 20)) * time.Minute }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := "monotone-" + name
			r := put(t, cl, queue, client.Message{Retry: &tc.policy})
			for n := 1; n <= attempts; n++ {
				if n <= 8 || n == 31 || n == 40 || n >= 63 && n <= 65 || n == attempts {
					nacked := nack(t, cl, take(t, cl, queue, time.Minute), -1)
					k := task(t, cl, r.ID)
					if got, want := waited(t, k), tc.want(n); got != want || nacked.Dead {
						t.Errorf("after attempt %d it waits %s, want %s", n, got, want)
					}
					// One message a probe: what waits for an hour is of no more use here.
					r = put(t, cl, queue, client.Message{Retry: &tc.policy})
					burn(t, cl, queue, n)
					continue
				}
				burn(t, cl, queue, 1)
			}
		})
	}
	for name, tc := range map[string]struct {
		policy client.RetryPolicy
		field  string
	}{
		"factor below 1":             {client.RetryPolicy{Kind: "exponential", Multiplier: 0.999}, "multiplier"},
		"factor above 100":           {client.RetryPolicy{Kind: "exponential", Multiplier: 100.001}, "multiplier"},
		"negative wait":              {client.RetryPolicy{Kind: "fixed", Initial: -time.Second}, "initial_ms"},
		"wait above 366 days":        {client.RetryPolicy{Kind: "fixed", Initial: 366*24*time.Hour + time.Millisecond}, "initial_ms"},
		"negative attempts":          {client.RetryPolicy{Kind: "fixed", MaxAttempts: -1}, "max_attempts"},
		"1001 attempts":              {client.RetryPolicy{Kind: "fixed", MaxAttempts: 1001}, "max_attempts"},
		"negative jitter":            {client.RetryPolicy{Kind: "fixed", Jitter: -1}, "jitter_ms"},
		"a schedule of nothing":      {client.RetryPolicy{Kind: "schedule"}, "steps"},
		"a schedule of 101 steps":    {client.RetryPolicy{Kind: "schedule", Steps: make([]time.Duration, 101)}, "steps"},
		"a schedule with a past one": {client.RetryPolicy{Kind: "schedule", Steps: []time.Duration{time.Second, -time.Second}}, "steps[1]"},
		"no such kind":               {client.RetryPolicy{Kind: "fibonacci"}, "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cl.Enqueue(within(t, 30*time.Second), "refused", client.Message{Retry: &tc.policy})
			if e := refused(t, name, err, client.ErrInvalidArgument); e.Field != "retry."+tc.field {
				t.Errorf("the error names field %q, want retry.%s: %v", e.Field, tc.field, err)
			}
		})
	}
}

// The number of runs is max_attempts, however they fail, and so says the dead letter; releases are no runs. (C48, G10)
func exactAttempts(t *testing.T, cl *client.Client) {
	for _, most := range []int{1, 2, 5} {
		for how := range 3 {
			name := []string{"nack", "expiry", "mixed"}[how]
			t.Run(fmt.Sprintf("%d by %s", most, name), func(t *testing.T) {
				t.Parallel()
				queue := fmt.Sprintf("exact-%d-%s", most, name)
				r := put(t, cl, queue, client.Message{Retry: fixed(time.Millisecond, most)})
				for n := 1; n <= most; n++ {
					if d := take(t, cl, queue, time.Minute); d.Attempt != n {
						t.Fatalf("run %d is attempt %d", n, d.Attempt)
					} else if err := cl.Release(within(t, 30*time.Second), d.Token); err != nil {
						t.Fatal(err)
					}
					expire := how == 1 || how == 2 && n%2 == 0
					lease := time.Minute
					if expire {
						lease = 100 * time.Millisecond
					}
					d := take(t, cl, queue, lease)
					if d.Attempt != n {
						t.Fatalf("run %d is attempt %d after a release", n, d.Attempt)
					}
					if expire {
						continue
					}
					if a := nack(t, cl, d, -1); a.Dead != (n == most) {
						t.Fatalf("nack of attempt %d of %d says dead: %v", n, most, a.Dead)
					}
				}
				k := becomes(t, cl, r.ID, "dead")
				if k.Attempts != most || k.MaxAttempts != 0 && k.MaxAttempts != most || k.Reason != "max_attempts" || len(k.History) != most {
					t.Errorf("dead letter %+v, want %d attempts in all", k, most)
				}
				for i, a := range k.History {
					if a.Number != i+1 {
						t.Errorf("attempt %d of the history has number %d", i+1, a.Number)
					}
				}
				if ds, err := cl.Lease(within(t, 30*time.Second), queue, client.LeaseOptions{}); err != nil || len(ds) > 0 {
					t.Errorf("one run too many: %v, %v", ds, err)
				}
				counts(t, cl, queue, [5]int64{4: 1})
			})
		}
	}
}

// Waits are spread over [d, d+J], each as the contract computes it from the id and the attempt. (C49)
func jitter(t *testing.T, cl *client.Client) {
	const base, spread, many = 60_000, 7_000, 200
	ctx := within(t, 3*time.Minute)
	create(t, cl, "jitter", client.QueueOptions{Retry: &client.RetryPolicy{Kind: "fixed", Initial: base * time.Millisecond, MaxAttempts: 3, Jitter: spread * time.Millisecond}})
	if _, errs := cl.EnqueueBatch(ctx, "jitter", make([]client.Message, many)); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	ds, err := cl.Lease(ctx, "jitter", client.LeaseOptions{Max: many, Lease: 10 * time.Minute})
	if err != nil || len(ds) != many {
		t.Fatalf("leased %d, %v", len(ds), err)
	}
	seen := map[time.Duration]bool{}
	for _, d := range ds {
		nack(t, cl, d, -1)
		got := waited(t, task(t, cl, d.ID))
		seen[got] = true
		hi, lo := idHalves(t, d.ID)
		if want := time.Duration(base+mix(hi^mix(lo+0x9E3779B97F4A7C15))%(spread+1)) * time.Millisecond; got != want {
			t.Fatalf("%s waits %s, want %s", d.ID, got, want)
		}
	}
	if len(seen) < many*9/10 {
		t.Errorf("%d messages have only %d different waits", many, len(seen))
	}
}

// mix is the SplitMix64 finaliser.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// idHalves reads an id: 128 bits as 26 characters of Crockford base32, the two bits that are too many in front.
func idHalves(t *testing.T, id string) (hi, lo uint64) {
	t.Helper()
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	if len(id) != 26 {
		t.Fatalf("id %q has %d characters", id, len(id))
	}
	for i := range len(id) {
		v := -1
		for k := range alphabet {
			if alphabet[k] == id[i] || alphabet[k] >= 'A' && alphabet[k]|0x20 == id[i] {
				v = k
			}
		}
		if v < 0 {
			t.Fatalf("id %q has a character outside the alphabet", id)
		}
		hi, lo = hi<<5|lo>>59, lo<<5|uint64(v)
	}
	return hi, lo
}

// The maximum of dead letters is exact: beyond it enqueues are refused, or the oldest goes and is counted, also at a
// maximum of one; what went is gone for get and delete. (C52)
func maxDead(t *testing.T, cl, impatient *client.Client) {
	die := func(t *testing.T, queue string) string {
		t.Helper()
		r := put(t, cl, queue, client.Message{})
		if _, err := cl.Nack(within(t, 30*time.Second), take(t, cl, queue, time.Minute).Token, client.NackOptions{Permanent: true}); err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	listed := func(t *testing.T, queue string) (ids []string) {
		t.Helper()
		ts, next, err := cl.DeadLetters(within(t, 30*time.Second), queue, client.DeadOptions{})
		if err != nil || next != "" {
			t.Fatalf("listing: next %q, %v", next, err)
		}
		for _, k := range ts {
			ids = append(ids, k.ID)
		}
		return ids
	}
	for _, most := range []int{1, 3} {
		t.Run(fmt.Sprintf("the oldest of %d goes", most), func(t *testing.T) {
			t.Parallel()
			queue := fmt.Sprint("drop-", most)
			create(t, cl, queue, client.QueueOptions{MaxDead: int64(most), DeadOverflow: "drop_oldest"})
			var ids []string
			for range most + 2 {
				ids = append(ids, die(t, queue))
			}
			if got := listed(t, queue); fmt.Sprint(got) != fmt.Sprint(ids[2:]) {
				t.Errorf("kept %v, want the last %d of %v", got, most, ids)
			}
			if q := counts(t, cl, queue, [5]int64{4: int64(most)}); q.Totals["dead_dropped"] != 2 {
				t.Errorf("counters %v, want dead_dropped 2", q.Totals)
			}
			_, err := cl.DeadLetter(within(t, 30*time.Second), queue, ids[0])
			refused(t, "get of one that went", err, client.ErrNotFound)
			refused(t, "delete of one that went", cl.DeleteDead(within(t, 30*time.Second), queue, ids[0])[0], client.ErrNotFound)
			_, errs := cl.Requeue(within(t, 30*time.Second), queue, ids[0])
			refused(t, "requeue of one that went", errs[0], client.ErrNotFound)
		})
		t.Run(fmt.Sprintf("enqueues are refused at %d", most), func(t *testing.T) {
			t.Parallel()
			queue := fmt.Sprint("refuse-", most)
			create(t, cl, queue, client.QueueOptions{MaxDead: int64(most)})
			out := put(t, cl, queue, client.Message{}) // taken in before the maximum is reached
			d := take(t, cl, queue, time.Minute)
			var ids []string
			for range most {
				ids = append(ids, die(t, queue))
			}
			_, err := impatient.Enqueue(within(t, 30*time.Second), queue, client.Message{})
			refused(t, "enqueue at the maximum", err, client.ErrQueueFull)
			if _, err := cl.Nack(within(t, 30*time.Second), d.Token, client.NackOptions{Permanent: true}); err != nil {
				t.Fatalf("what is out may still die: %v", err)
			}
			if k := task(t, cl, out.ID); k.Status != "dead" {
				t.Errorf("it is %s, want dead", k.Status)
			}
			errs := cl.DeleteDead(within(t, 30*time.Second), queue, append(ids, out.ID)...)
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			put(t, cl, queue, client.Message{})
			counts(t, cl, queue, [5]int64{0: 1})
		})
	}
}

// What a dead letter holds, and what a requeue makes of it: a new id, the same task, all attempts, at the end of the queue.
// (C53)
func redrive(t *testing.T, cl *client.Client) {
	ctx := within(t, 3*time.Minute)
	m := client.Message{Body: []byte{0xff, 0xfe, 0}, TaskID: "the-task", Kind: "k", ContentType: "x/y", Headers: []client.Header{{Name: "a", Value: "b"}},
		Retry: fixed(time.Millisecond, 2)}
	first := put(t, cl, "redrive", m)
	for range 2 {
		nack(t, cl, take(t, cl, "redrive", time.Minute), -1)
	}
	other := put(t, cl, "redrive", client.Message{})
	id := first.ID
	for n := 1; n <= 3; n++ {
		d, err := cl.DeadLetter(ctx, "redrive", id)
		if err != nil {
			t.Fatal(err)
		}
		if d.TaskID != "the-task" || string(d.Body) != string(m.Body) || d.Kind != "k" || d.ContentType != "x/y" || len(d.Headers) != 1 ||
			d.Reason != "max_attempts" || d.Attempts != 2 || len(d.History) != 2 || d.Error != "no" || d.Redrives != n-1 || d.EndedAt.IsZero() {
			t.Errorf("dead letter %+v", d)
		}
		rs, errs := cl.Requeue(ctx, "redrive", id)
		if errs[0] != nil || rs[0].ID == id || rs[0].TaskID != "the-task" {
			t.Fatalf("requeue: %+v, %v", rs, errs)
		}
		_, errs = cl.Requeue(ctx, "redrive", id)
		refused(t, "requeue of what was requeued", errs[0], client.ErrNotFound)
		if n == 1 {
			if d := take(t, cl, "redrive", time.Minute); d.ID != other.ID {
				t.Errorf("%s goes first, want the one that was there: a requeued message is last", d.ID)
			} else {
				ack(t, cl, d, "")
			}
		}
		for attempt := 1; attempt <= 2; attempt++ {
			d := take(t, cl, "redrive", time.Minute)
			if d.ID != rs[0].ID || d.TaskID != "the-task" || d.Attempt != attempt || d.Redrives != n {
				t.Errorf("redrive %d comes as %+v", n, d)
			}
			nack(t, cl, d, -1)
		}
		id = rs[0].ID
	}
	counts(t, cl, "redrive", [5]int64{4: 1})
}

// (C53)
func attemptEverywhere(t *testing.T, addrs []string, cl *client.Client) {
	r := put(t, cl, "doors", client.Message{Retry: fixed(time.Millisecond, 10)})
	var n atomic.Int32
	check := func(door string, attempt int) {
		t.Helper()
		want := int(n.Add(1))
		if attempt != want {
			t.Errorf("%s says attempt %d, want %d", door, attempt, want)
		}
		if k := task(t, cl, r.ID); k.Attempts != want || k.Status != "processing" {
			t.Errorf("the task is %s with %d attempts, want processing with %d", k.Status, k.Attempts, want)
		}
		if ts, _, err := cl.Peek(within(t, 30*time.Second), "doors", client.PeekOptions{State: "processing"}); err != nil || len(ts) != 1 || ts[0].Attempts != want {
			t.Errorf("peek says %+v, %v, want one with %d attempts", ts, err, want)
		}
	}
	pulled := take(t, cl, "doors", time.Minute)
	check("a pull", pulled.Attempt)
	nack(t, cl, pulled, -1)

	got := make(chan *client.Delivery, 1)
	sub, err := cl.Subscribe(within(t, 30*time.Second), "doors", client.SubscribeOptions{Credit: 1, Lease: time.Minute}, func(d *client.Delivery) { got <- d })
	if err != nil {
		t.Fatal(err)
	}
	d := <-got
	check("a subscription", d.Attempt)
	if err := sub.Close(within(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	nack(t, cl, d, -1)

	out := quorate(t, addrs, "lease", "doors", "--wait", "30s", "--lease", "60s", "-o", "json")
	var leased []struct {
		Token   string `json:"token"`
		Attempt int    `json:"attempt"`
	}
	if err := json.Unmarshal([]byte(out.stdout), &leased); err != nil || len(leased) != 1 {
		t.Fatalf("quorate lease: %+v, %v", out, err)
	}
	check("the command line", leased[0].Attempt)
	if out := quorate(t, addrs, "nack", leased[0].Token, "--permanent", "--error", "enough"); out.code != 0 {
		t.Fatalf("quorate nack: %+v", out)
	}
	k := task(t, cl, r.ID)
	if k.Status != "dead" || k.Attempts != 3 || k.Reason != "permanent" || len(k.History) != 3 || k.History[2].Number != 3 {
		t.Errorf("dead letter %+v, want three attempts", k)
	}
}
