package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/fsm"
)

// A part of the load comes by HTTP, with Idempotency-Keys: programs that know nothing but that a request may be sent again under its key, to any
// node, as often as they like, and that give up on an answer whenever they like. What they demand is that it is done once within an
// hour of log time, and that every answer is the first one. The queue is their own, and nobody takes from it.
const (
	keyedQueue   = "keyed"
	keyedSenders = 2
	keyedBatch   = 2
	// patient is how long an answer is waited for by who waits: less than what a request may take, so that some are given up on.
	patient = 3 * time.Second
)

// keyed are the programs that send with keys.
type keyed struct {
	w       *world
	client  *http.Client
	stop    chan struct{} // closed when nothing new is to be sent
	senders sync.WaitGroup

	mu     sync.Mutex
	writes []*keyedWrite // guarded by mu: all that were tried
}

// keyedWrite is one request, under its key.
type keyedWrite struct {
	key string

	mu      sync.Mutex
	tried   int         // guarded by mu
	unclear int         // guarded by mu: tries that ended without an answer, or with one that it may have been done
	node    int         // guarded by mu: that was asked first
	term    uint64      // guarded by mu: of the leader when the first answer came
	answers [][2]string // guarded by mu: the messages' ids, by what was answered; the first one is what all must be
	fresh   int         // guarded by mu: answers that do not say that they are an earlier request's
}

// keyed begins to send, where the plan has keys.
func (w *world) keyed() *keyed {
	k := &keyed{w: w, stop: make(chan struct{})}
	dial := w.dial(clientHosts[0])
	k.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) }, DisableKeepAlives: true, DisableCompression: true,
	}}
	if w.plan.Keys == 0 {
		return k
	}
	for i := range keyedSenders {
		rng := rand.New(rand.NewPCG(w.plan.Seed, 0x6b65+uint64(i)))
		k.senders.Go(func() { k.sends(i, rng) })
	}
	return k
}

// sends is one program: new requests up to its share, and between them those of before again.
func (k *keyed) sends(sender int, rng *rand.Rand) {
	var own []*keyedWrite
	share := int(k.w.plan.Keys) / keyedSenders
	for k.rest(time.Duration(k.w.plan.PaceMS) * time.Millisecond * time.Duration(1+rng.IntN(8))) {
		var r *keyedWrite
		if len(own) < share && (len(own) == 0 || rng.IntN(2) == 0) {
			r = &keyedWrite{key: fmt.Sprintf("sender-%d:%d", sender, len(own))}
			own = append(own, r)
			k.mu.Lock()
			k.writes = append(k.writes, r)
			k.mu.Unlock()
		} else if len(own) > 0 {
			r = own[rng.IntN(len(own))]
		} else {
			continue
		}
		wait := patient
		if rng.IntN(4) == 0 { // gives up when it may have been done, or be on its way
			wait = time.Duration(1+rng.IntN(60)) * time.Millisecond
		}
		node := rng.IntN(len(k.w.nodes))
		if rng.IntN(5) > 0 {
			k.try(r, node, wait)
			continue
		}
		var both sync.WaitGroup // at two nodes at once
		both.Go(func() { k.try(r, node, wait) })
		k.try(r, (node+1)%len(k.w.nodes), patient)
		both.Wait()
	}
}

// rest lets time pass, and says whether to go on.
func (k *keyed) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-k.stop:
		return false
	}
}

func (r *keyedWrite) body() string {
	var ms []string
	for i := range keyedBatch {
		ms = append(ms, `{"body":`+r.text(i)+`}`)
	}
	return `{"messages":[` + strings.Join(ms, ",") + `]}`
}

// text is a body: a text, as JSON.
func (r *keyedWrite) text(i int) string { return fmt.Sprintf(`"%s-%d"`, r.key, i) }

// try sends a request once and says whether it was answered.
func (k *keyed) try(r *keyedWrite, node int, wait time.Duration) bool {
	w := k.w
	r.mu.Lock()
	if r.tried++; r.tried == 1 {
		r.node = node
	}
	r.mu.Unlock()
	status, replayed, b, err := k.ask(r, w.nodes[node].addr(), wait)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.unclear++
		return false
	case status >= 500 || status == http.StatusTooManyRequests:
		if strings.Contains(string(b), `"unknown"`) {
			r.unclear++
		}
		return false
	case status != http.StatusCreated:
		w.blame("keyed: %s is answered %d %.200s", r.key, status, b)
		return true
	}
	var got struct{ Messages []struct{ ID string } }
	if err := json.Unmarshal(b, &got); err != nil || len(got.Messages) != keyedBatch {
		w.blame("keyed: %s is answered %.200s (%v)", r.key, b, err)
		return true
	}
	ids := [2]string{got.Messages[0].ID, got.Messages[1].ID}
	term := uint64(0)
	if l := w.leader(); l != nil {
		term = l.group.Status().Term
	}
	if !slices.Contains(r.answers, ids) {
		r.answers = append(r.answers, ids)
	}
	if !replayed {
		if r.fresh++; r.term == 0 {
			r.term = term
		}
		return true
	}
	w.count("keyed write answered again")
	if r.unclear > 0 && r.fresh == 0 {
		w.count("keyed write of unknown outcome found done")
	}
	if node != r.node {
		w.count("keyed write answered again by another node")
	}
	if r.term == 0 {
		r.term = term
	} else if term > r.term {
		w.count("keyed write answered again under another leader")
	}
	return true
}

// ask sends a request over a connection of its own.
func (k *keyed) ask(r *keyedWrite, addr string, wait time.Duration) (status int, replayed bool, body []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/queues/"+keyedQueue+"/messages", strings.NewReader(r.body()))
	if err != nil {
		return 0, false, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", r.key)
	resp, err := k.client.Do(req)
	if err != nil {
		return 0, false, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get("Idempotency-Replayed") == "true", body, err
}

// end ends the senders, and has every request answered once more where the cluster is whole.
func (k *keyed) end(whole bool) {
	close(k.stop)
	k.senders.Wait()
	defer k.client.CloseIdleConnections()
	if !whole {
		return
	}
	for i, r := range k.writes {
		answered := false
		for tries := 0; tries < 30 && !answered; tries++ {
			if tries > 0 {
				time.Sleep(200 * time.Millisecond)
			}
			answered = k.try(r, (i+tries)%len(k.w.nodes), 10*time.Second)
		}
		if !answered {
			k.w.blame("keyed: %s has no answer of a cluster that is whole", r.key)
		}
	}
}

// judge holds what was answered against the log: each request is in it once an hour at most, and each answer is one of what is in it; and it
// takes what is of these requests out of the effects, since who else judges them knows of no such senders.
func (k *keyed) judge(effects []history.Effect, bad func(format string, args ...any)) []history.Effect {
	type done struct {
		at  int64 // log time
		ids []string
	}
	all := map[string][]*done{} // by key, in the order of the log
	of := map[string]string{}   // keys, by what stands for a body
	for _, r := range k.writes {
		for i := range keyedBatch {
			of[history.Sum([]byte(r.text(i)))] = r.key
		}
	}
	now, last := int64(0), map[string]uint64{}
	others := make([]history.Effect, 0, len(effects))
	for i := range effects {
		e := &effects[i]
		if e.Op == history.Entry {
			now = e.Time
		}
		if e.Queue != keyedQueue {
			others = append(others, *e)
			continue
		}
		if e.Op != history.Enqueue || e.Code != "" {
			continue
		}
		key, known := of[e.Body]
		if !known {
			bad("keyed: message %s is in the log, and nobody sent it", e.Message)
			continue
		}
		was := all[key]
		if len(was) == 0 || last[key] != e.Index || len(was[len(was)-1].ids) == keyedBatch {
			if n := len(was); n > 0 && now < was[n-1].at+fsm.IdempotencyMillis {
				bad("keyed: %s was carried out at T %d and again at %d, which is within an hour", key, was[n-1].at, now)
			}
			all[key] = append(was, &done{at: now})
		}
		last[key] = e.Index
		d := all[key][len(all[key])-1]
		d.ids = append(d.ids, e.Message)
	}
	for _, r := range k.writes {
		was := all[r.key]
		for _, d := range was {
			if len(d.ids) != keyedBatch {
				bad("keyed: %s was carried out by half: %v", r.key, d.ids)
			}
		}
		for _, ids := range r.answers {
			if !slices.ContainsFunc(was, func(d *done) bool { return slices.Equal(d.ids, ids[:]) }) {
				bad("keyed: %s was answered %v, which is not in the log", r.key, ids)
			}
		}
		if len(r.answers) > len(was) {
			bad("keyed: %s was carried out %d times and has %d answers: %v", r.key, len(was), len(r.answers), r.answers)
		}
		if r.fresh > len(was) {
			bad("keyed: %s was carried out %d times and answered %d times as if it were new", r.key, len(was), r.fresh)
		}
	}
	return others
}
