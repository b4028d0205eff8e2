package chaos

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// Dead-letter queues on three nodes: what moves, what it keeps, and what brings it back.
func TestDeadLetterQueues(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	for name, test := range map[string]func(*testing.T, *client.Client){
		"the whole life of what was moved":           movedLife,
		"a worker of the dead-letter queue closes":   movedCloses,
		"a missing, then a full dead-letter queue":   movedStays,
		"a wait for a result ends with the dead one": movedResult,
		"a poison task dies after its attempts":      movedPoison,
		"what died while it was taken is left alone": bulkTakesOnce,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, cl) })
	}
}

// dies enqueues a message and lets it die at once.
func dies(t *testing.T, cl *client.Client, queue string, m client.Message) (client.Receipt, *client.Delivery) {
	t.Helper()
	r := put(t, cl, queue, m)
	d := take(t, cl, queue, time.Minute)
	if n, err := cl.Nack(within(t, 30*time.Second), d.Token, client.NackOptions{Permanent: true, Error: "boom"}); err != nil || !n.Dead {
		t.Fatalf("nack: %+v, %v", n, err)
	}
	return r, d
}

// The delivery counter, the history, the task's name and the loop counter, through move, requeue, edit and another death. (C53)
func movedLife(t *testing.T, cl *client.Client) {
	ctx := within(t, 3*time.Minute)
	create(t, cl, "life-dead", client.QueueOptions{})
	create(t, cl, "life", client.QueueOptions{DeadLetterQueue: "life-dead"})
	r, d := dies(t, cl, "life", client.Message{TaskID: "job", Body: []byte{0xff, 0}, Kind: "k"})
	k, err := cl.Task(ctx, "life", "job")
	if err != nil || k.Status != "dead" || k.Queue != "life-dead" || k.Origin != "life" || k.ID == r.ID || k.OriginalID != r.ID || k.Attempts != 1 ||
		k.Error != "boom" || len(k.History) != 1 || k.Held != "pending" {
		t.Fatalf("task %+v, %v", k, err)
	}
	if byOld, err := cl.DeadLetter(ctx, "life-dead", r.ID); err != nil || byOld.ID != k.ID {
		t.Errorf("by the id it had: %+v, %v", byOld, err)
	}
	if n, err := cl.Nack(ctx, d.Token, client.NackOptions{}); err != nil || !n.Dead {
		t.Errorf("nack again: %+v, %v", n, err)
	}
	_, err = cl.Ack(ctx, d.Token, client.AckOptions{})
	refused(t, "ack of what died", err, client.ErrLeaseLost)
	_, err = cl.Enqueue(ctx, "life", client.Message{TaskID: "job"})
	if e := refused(t, "its name is taken", err, client.ErrAlreadyExists); e.ID != k.ID {
		t.Errorf("the holder is %s, want %s", e.ID, k.ID)
	}
	counts(t, cl, "life", [5]int64{})
	counts(t, cl, "life-dead", [5]int64{1})
	for n := 1; n <= 3; n++ {
		re, err := cl.RequeueEdited(ctx, "life-dead", k.ID, client.Message{Body: fmt.Append(nil, "try ", n)}, client.EditBody)
		if err != nil || re.TaskID != "job" {
			t.Fatalf("requeue %d: %+v, %v", n, re, err)
		}
		_, errs := cl.Requeue(ctx, "life-dead", k.ID)
		refused(t, "requeue again", errs[0], client.ErrNotFound)
		d := take(t, cl, "life", time.Minute)
		if d.ID != re.ID || d.Attempt != 1 || d.Redrives != n || string(d.Body) != fmt.Sprint("try ", n) || d.Kind != "k" {
			t.Fatalf("redrive %d comes as %+v", n, d)
		}
		if _, err := cl.Nack(ctx, d.Token, client.NackOptions{Permanent: true}); err != nil {
			t.Fatal(err)
		}
		if k, err = cl.Task(ctx, "life", "job"); err != nil || k.Redrives != n || k.OriginalID != r.ID || k.Queue != "life-dead" {
			t.Fatalf("dead again: %+v, %v", k, err)
		}
	}
	if n, err := cl.EmptyDead(ctx, "life-dead"); err != nil || n != 1 {
		t.Errorf("purge: %d, %v", n, err)
	}
	_, err = cl.Task(ctx, "life", "job")
	refused(t, "task after the purge", err, client.ErrNotFound)
	put(t, cl, "life", client.Message{TaskID: "job"})
}

func movedCloses(t *testing.T, cl *client.Client) {
	ctx := within(t, 3*time.Minute)
	create(t, cl, "close-dead", client.QueueOptions{})
	create(t, cl, "close", client.QueueOptions{DeadLetterQueue: "close-dead"})
	dies(t, cl, "close", client.Message{TaskID: "job"})
	d := take(t, cl, "close-dead", time.Minute)
	if d.TaskID != "job" || d.Attempt != 1 {
		t.Errorf("it comes as %+v", d)
	}
	_, errs := cl.Requeue(ctx, "close-dead", d.ID)
	refused(t, "requeue of what is out", errs[0], client.ErrFailedPrecondition)
	ack(t, cl, d, "looked at")
	ack(t, cl, d, "looked at")
	_, err := cl.Task(ctx, "close", "job")
	refused(t, "task after it was closed", err, client.ErrNotFound)
	q := counts(t, cl, "close", [5]int64{})
	if p := counts(t, cl, "close-dead", [5]int64{}); q.Results+p.Results != 0 {
		t.Errorf("%d results recorded, want none", q.Results+p.Results)
	}
}

// A cap that is exact, and a letter that says why it stayed. (C52)
func movedStays(t *testing.T, cl *client.Client) {
	ctx := within(t, 3*time.Minute)
	create(t, cl, "stay", client.QueueOptions{DeadLetterQueue: "stay-dead"})
	dies(t, cl, "stay", client.Message{TaskID: "a"})
	create(t, cl, "stay-dead", client.QueueOptions{MaxDead: 1})
	dies(t, cl, "stay", client.Message{TaskID: "b"})
	d := take(t, cl, "stay-dead", time.Minute)
	if n, err := cl.Nack(ctx, d.Token, client.NackOptions{Permanent: true}); err != nil || !n.Dead { // its own dead set is full now
		t.Fatalf("nack: %+v, %v", n, err)
	}
	dies(t, cl, "stay", client.Message{TaskID: "c"})
	for name, want := range map[string][2]string{"a": {"stay", "missing"}, "b": {"stay-dead", ""}, "c": {"stay", "full"}} {
		if k, err := cl.Task(ctx, "stay", name); err != nil || k.Queue != want[0] || k.Stay != want[1] || k.Status != "dead" {
			t.Errorf("task %s is %+v, %v; want it in %s, %q", name, k, err, want[0], want[1])
		}
	}
	q := counts(t, cl, "stay", [5]int64{4: 2})
	if q.Totals["dead_stayed"] != 2 || q.Totals["dead_moved"] != 1 {
		t.Errorf("counters %v", q.Totals)
	}
	r, err := cl.RequeueWhere(ctx, "stay-dead", client.BulkOptions{})
	if err != nil || r.Done != 1 {
		t.Errorf("requeue: %+v, %v", r, err)
	}
	ack(t, cl, take(t, cl, "stay", time.Minute), "")
	// The origin gone, it has nowhere to go back to, and stays.
	dies(t, cl, "stay", client.Message{TaskID: "e"})
	k, err := cl.Task(ctx, "stay", "e")
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.DeleteQueue(ctx, "stay"); err != nil {
		t.Fatal(err)
	}
	_, errs := cl.Requeue(ctx, "stay-dead", k.ID)
	refused(t, "requeue into a queue that was deleted", errs[0], client.ErrNotFound)
	if k, err := cl.DeadLetter(ctx, "stay-dead", k.ID); err != nil || k.Origin != "stay" {
		t.Errorf("it stays: %+v, %v", k, err)
	}
	err = cl.CreateQueue(ctx, "stay-self", client.QueueOptions{DeadLetterQueue: "stay-self"})
	refused(t, "a queue that names itself", err, client.ErrInvalidArgument)
}

func movedResult(t *testing.T, cl *client.Client) {
	create(t, cl, "result-dead", client.QueueOptions{})
	create(t, cl, "result", client.QueueOptions{DeadLetterQueue: "result-dead"})
	r := put(t, cl, "result", client.Message{})
	got := make(chan error, 1)
	go func() {
		res, err := cl.WaitResult(within(t, 30*time.Second), "result", r.ID)
		if err == nil && (res.Status != "dead" || res.Dead == nil || res.Dead.Origin != "result") {
			err = fmt.Errorf("result %+v", res)
		}
		got <- err
	}()
	if _, err := cl.Nack(within(t, 30*time.Second), take(t, cl, "result", time.Minute).Token, client.NackOptions{Permanent: true}); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// (C54)
func movedPoison(t *testing.T, cl *client.Client) {
	create(t, cl, "poison-dead", client.QueueOptions{})
	create(t, cl, "poison", client.QueueOptions{DeadLetterQueue: "poison-dead"})
	r := put(t, cl, "poison", client.Message{Retry: fixed(time.Millisecond, 3)})
	for n := 1; n <= 3; n++ {
		if d := take(t, cl, "poison", 100*time.Millisecond); d.Attempt != n {
			t.Fatalf("attempt %d, want %d", d.Attempt, n)
		}
	}
	k := becomes(t, cl, r.ID, "dead")
	if k.Reason != "max_attempts" || k.Error != "lease expired" || k.Attempts != 3 || k.Queue != "poison-dead" {
		t.Errorf("dead letter %+v", k)
	}
}

// A bulk requeue takes what had died when it began: what dies again at once is not taken for ever.
func bulkTakesOnce(t *testing.T, cl *client.Client) {
	ctx := within(t, 3*time.Minute)
	create(t, cl, "once", client.QueueOptions{})
	const many = 30
	for range many {
		dies(t, cl, "once", client.Message{})
	}
	again := 0
	r, err := cl.RequeueWhere(ctx, "once", client.BulkOptions{Rate: 50, Each: func(_ *client.Task, _ client.Receipt, err error) error {
		if err != nil {
			return err
		}
		d := take(t, cl, "once", time.Minute) // and back it goes
		_, err = cl.Nack(ctx, d.Token, client.NackOptions{Permanent: true})
		again++
		return err
	}})
	if err != nil || r.Done != many || again != many {
		t.Errorf("%+v after %d deaths, %v; want %d", r, again, err, many)
	}
	counts(t, cl, "once", [5]int64{4: many})
}

// A bulk requeue through the kill of the leader: every letter goes back exactly once.
func TestBulkRequeueAcrossLeaderKill(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	ctx := within(t, 3*time.Minute)
	const many = 3000
	create(t, cl, "bulk-dead", client.QueueOptions{})
	create(t, cl, "bulk", client.QueueOptions{DeadLetterQueue: "bulk-dead"})
	deaths(t, cl, "bulk", many)
	counts(t, cl, "bulk-dead", [5]int64{many})

	killed := false
	seen := map[string]bool{}
	r, err := cl.RequeueWhere(ctx, "bulk-dead", client.BulkOptions{Rate: 1500, Each: func(k *client.Task, _ client.Receipt, err error) error {
		if err != nil {
			t.Errorf("%s: %v", k.ID, err)
		}
		if seen[k.ID] {
			t.Errorf("%s was taken twice", k.ID)
		}
		seen[k.ID] = true
		if len(seen) > many/3 && !killed {
			killed = true
			leader(t, c).Kill()
		}
		return nil
	}})
	if err != nil || r.Done != many || r.Failed != 0 {
		t.Fatalf("%+v, %v; want %d done", r, err, many)
	}
	q := counts(t, cl, "bulk", [5]int64{many})
	if q.Totals["redriven"] != many || q.Totals["dead_moved"] != many {
		t.Errorf("counters %v, want %d redriven", q.Totals, many)
	}
	counts(t, cl, "bulk-dead", [5]int64{})
	tasks := map[string]bool{}
	for len(tasks) < many {
		ds, err := cl.Lease(ctx, "bulk", client.LeaseOptions{Max: 1000, Lease: time.Minute, Wait: 10 * time.Second})
		if err != nil || len(ds) == 0 {
			t.Fatalf("%d of %d leased, %v", len(tasks), many, err)
		}
		for _, d := range ds {
			if tasks[d.TaskID] || d.Redrives != 1 || d.Attempt != 1 {
				t.Fatalf("%+v comes twice, or not afresh", d)
			}
			tasks[d.TaskID] = true
		}
	}
}

// deaths lets n messages die, 1,000 at a time.
func deaths(t *testing.T, cl *client.Client, queue string, n int) {
	t.Helper()
	ctx := within(t, 20*time.Minute)
	for done := 0; done < n; {
		ms := make([]client.Message, min(1000, n-done))
		for i := range ms {
			ms[i] = client.Message{Kind: []string{"mail", "pdf", "index"}[(done+i)%3], Body: []byte("a body of some bytes")}
		}
		if _, errs := cl.EnqueueBatch(ctx, queue, ms); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
		ds, err := cl.Lease(ctx, queue, client.LeaseOptions{Max: len(ms), Lease: time.Minute, Wait: 10 * time.Second})
		if err != nil || len(ds) == 0 {
			t.Fatalf("leased %d, %v", len(ds), err)
		}
		nacked := make(chan error, len(ds))
		for _, d := range ds {
			go func() {
				_, err := cl.Nack(ctx, d.Token, client.NackOptions{Permanent: true, Error: "no route"})
				nacked <- err
			}()
		}
		for range ds {
			if err := <-nacked; err != nil {
				t.Fatal(err)
			}
		}
		done += len(ds)
	}
}
