package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// TestOrder shows the order of each mode from outside, on three nodes.
func TestOrder(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	for name, test := range map[string]func(*testing.T, *client.Client){
		"fifo":    fifo,
		"per key": perKey,
		"a message that is nacked lets others pass":  requeuedFirst,
		"one active consumer is followed by another": oneActive,
		"priorities are strict":                      strictPriorities,
		"what an ordered queue refuses":              orderRefusals,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, cl) })
	}
}

func body(s string, key ...string) client.Message {
	m := client.Message{Body: []byte(s)}
	if len(key) > 0 {
		m.Key = []byte(key[0])
	}
	return m
}

// serve has f handle a subscription's deliveries, on a goroutine of its own, until end.
func serve(t *testing.T, cl *client.Client, queue string, credit int, f func(*client.Delivery)) (end func()) {
	t.Helper()
	came := make(chan *client.Delivery, 10_000)
	sub, err := cl.Subscribe(within(t, 30*time.Second), queue, client.SubscribeOptions{Credit: credit, Lease: 10 * time.Minute}, func(d *client.Delivery) { came <- d })
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case d := <-came:
				f(d)
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		sub.Close(within(t, 30*time.Second))
	}
}

// Two hundred messages and two consumers with much credit: one at a time is out, in order, also where one is nacked now and
// then, which keeps its place.
func fifo(t *testing.T, cl *client.Client) {
	create(t, cl, "fifo", client.QueueOptions{Ordering: "fifo", Retry: fixed(10*time.Millisecond, 3)})
	const n = 200
	var ms []client.Message
	for i := range n {
		ms = append(ms, body(fmt.Sprint(i), fmt.Sprint(i%3)))
	}
	if _, errs := cl.EnqueueBatch(within(t, 30*time.Second), "fifo", ms); slices.ContainsFunc(errs, func(e error) bool { return e != nil }) {
		t.Fatal(errs)
	}
	var mu sync.Mutex
	next, out := 0, 0
	done := make(chan struct{})
	handle := func(d *client.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		if out++; out != 1 || string(d.Body) != fmt.Sprint(next) {
			t.Errorf("%d are out with message %s, want %d alone", out, d.Body, next)
		}
		out--
		if next%10 == 3 && d.Attempt == 1 {
			nack(t, cl, d, -1)
			return
		}
		next++
		ack(t, cl, d, "")
		if next == n {
			close(done)
		}
	}
	defer serve(t, cl, "fifo", 500, handle)()
	defer serve(t, cl, "fifo", 5, handle)()
	arrives(t, done, "all messages of the queue")
	counts(t, cl, "fifo", [5]int64{})
}

// arrives waits for a signal.
func arrives(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-within(t, 3*time.Minute).Done():
		t.Fatalf("%s: not within three minutes", what)
	}
}

// A hundred keys of ten messages, the first ten keys stuck at their heads: all others are done in order, each key one at a
// time, and the stuck ones go on once their heads are done.
func perKey(t *testing.T, cl *client.Client) {
	create(t, cl, "keys", client.QueueOptions{Ordering: "per_key", Retry: fixed(10*time.Millisecond, 3)})
	const keys, deep, stuck = 100, 10, 10
	var ms []client.Message
	for i := range deep {
		for k := range keys {
			ms = append(ms, body(fmt.Sprint(i), fmt.Sprint(k)))
		}
	}
	if _, errs := cl.EnqueueBatch(within(t, 30*time.Second), "keys", ms); slices.ContainsFunc(errs, func(e error) bool { return e != nil }) {
		t.Fatal(errs)
	}
	held := map[string]*client.Delivery{}
	next, out := map[string]int{}, map[string]bool{}
	var mu sync.Mutex
	left := (keys - stuck) * deep
	done := make(chan struct{})
	handle := func(d *client.Delivery) {
		k := string(d.Key)
		mu.Lock()
		if out[k] || string(d.Body) != fmt.Sprint(next[k]) {
			t.Errorf("key %s: message %s, another out: %t, want %d", k, d.Body, out[k], next[k])
		}
		if next[k] == 0 && len(held) < stuck && held[k] == nil {
			held[k], out[k] = d, true
			mu.Unlock()
			return
		}
		if next[k] == 5 && d.Attempt == 1 {
			mu.Unlock()
			nack(t, cl, d, -1)
			return
		}
		next[k]++
		ack(t, cl, d, "")
		if left--; left == 0 {
			close(done)
		}
		mu.Unlock()
	}
	defer serve(t, cl, "keys", 300, handle)()
	arrives(t, done, "the keys that are not stuck")
	q := counts(t, cl, "keys", [5]int64{stuck * (deep - 1), stuck})
	if q.Blocked != stuck*(deep-1) {
		t.Errorf("%d are blocked, want %d", q.Blocked, stuck*(deep-1))
	}
	mu.Lock()
	left, done = stuck*(deep-1), make(chan struct{}) // what is stuck is handled as all others from here on
	for k := range held {
		next[k], out[k] = 1, false
	}
	end := done
	mu.Unlock()
	for _, d := range held {
		ack(t, cl, d, "")
	}
	arrives(t, end, "the keys that were stuck")
	eventually(t, 30*time.Second, "the queue is empty", func(ctx context.Context) bool {
		q, err := cl.Queue(ctx, "keys")
		return err == nil && q.Pending+q.Processing+q.Retrying == 0
	})
}

// (C37)
func requeuedFirst(t *testing.T, cl *client.Client) {
	create(t, cl, "passing", client.QueueOptions{Retry: fixed(0, 1000)})
	for i := range 5 {
		put(t, cl, "passing", body(fmt.Sprint(i)))
	}
	seen := map[string]bool{}
	for range 200 {
		d := take(t, cl, "passing", time.Minute)
		if string(d.Body) == "0" {
			nack(t, cl, d, 0)
			continue
		}
		seen[string(d.Body)] = true
		ack(t, cl, d, "")
		if len(seen) == 4 {
			return
		}
	}
	t.Errorf("only %v got past a message that is nacked without delay", seen)
}

// The one that is active lets its lease run out, then the next one does; whoever waits then is active within the lease's
// length. (C43)
func oneActive(t *testing.T, cl *client.Client) {
	create(t, cl, "active", client.QueueOptions{Ordering: "fifo", Lease: 300 * time.Millisecond, Retry: fixed(0, 10)})
	put(t, cl, "active", body("0"))
	put(t, cl, "active", body("1"))
	for range 3 { // nobody answers
		if d := take(t, cl, "active", 300*time.Millisecond); string(d.Body) != "0" {
			t.Fatalf("took %s, want the head", d.Body)
		}
	}
	got := make(chan string, 10)
	handle := func(d *client.Delivery) { got <- string(d.Body); ack(t, cl, d, "") }
	defer serve(t, cl, "active", 1, handle)()
	defer serve(t, cl, "active", 1, handle)()
	began := time.Now()
	for i := range 2 {
		select {
		case b := <-got:
			if b != fmt.Sprint(i) {
				t.Errorf("got %s, want %d", b, i)
			}
		case <-within(t, 30*time.Second).Done():
			t.Fatal("nobody is active")
		}
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("somebody was active after %v", d)
	}
}

// Among what is ready the highest priority goes first, also where lower ones came long before; what is out stays out. (C44)
func strictPriorities(t *testing.T, cl *client.Client) {
	high, low := 9, 0
	for range 100 {
		put(t, cl, "strict", client.Message{Body: []byte("low"), Priority: &low})
	}
	var slots []*client.Delivery
	for range 4 { // all slots hold low ones when the high ones come
		slots = append(slots, take(t, cl, "strict", time.Minute))
	}
	for range 100 {
		put(t, cl, "strict", client.Message{Body: []byte("high"), Priority: &high})
	}
	var got []string
	for range 196 {
		ack(t, cl, slots[0], "")
		d := take(t, cl, "strict", time.Minute)
		got = append(got, string(d.Body))
		slots = append(slots[1:], d)
	}
	if i := slices.Index(got, "low"); i != 100 || slices.Contains(got[100:], "high") {
		t.Errorf("the first low one came as number %d, want all 100 high ones before", i)
	}
	for _, d := range slots {
		ack(t, cl, d, "")
	}
	counts(t, cl, "strict", [5]int64{})
}

func orderRefusals(t *testing.T, cl *client.Client) {
	create(t, cl, "asks", client.QueueOptions{Ordering: "per_key"})
	nine := 9
	_, err := cl.Enqueue(within(t, 30*time.Second), "asks", client.Message{Priority: &nine})
	if e := refused(t, "a priority", err, client.ErrInvalidArgument); e.Field != "priority" {
		t.Errorf("the refusal names %q, want priority: %v", e.Field, e)
	}
	put(t, cl, "asks", body("x", "k"))
	err = cl.SetQueue(within(t, 30*time.Second), "asks", client.QueueOptions{Ordering: "fifo"})
	refused(t, "another ordering", err, client.ErrFailedPrecondition)
	ack(t, cl, take(t, cl, "asks", time.Minute), "")
	if err := cl.SetQueue(within(t, 30*time.Second), "asks", client.QueueOptions{Ordering: "fifo"}); err != nil {
		t.Errorf("of an empty queue: %v", err)
	}
}
