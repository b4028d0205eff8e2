package group

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

func enqueueKeyed(queue, key string, bodies ...string) *fsm.Enqueue {
	op := enqueue(queue, bodies...)
	for i := range op.Messages {
		op.Messages[i].Key = []byte(key)
	}
	return op
}

// keyOfBody is the key of a message that tells it in its body, key/number.
func keyOfBody(body string) string {
	for i := range body {
		if body[i] == '/' {
			return body[:i]
		}
	}
	return ""
}

func keyBodies(key string, n int) (b []string) {
	for i := range n {
		b = append(b, fmt.Sprint(key, "/", i))
	}
	return b
}

// Never is one message more of a key out than may be, whatever twenty consumers ask for, answer and lose, and whoever leads; and
// all of them are worked off.
func TestInFlightPerKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		const limit, keys, each = 2, 7, 30
		l := c.leader()
		often := fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 10, MaxAttempts: 1000}
		l.do(t, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{MaxInFlightPerKey: limit, LeaseMillis: 2000, Retry: often}})
		for i := range keys {
			k := fmt.Sprint("k", i)
			l.do(t, enqueueKeyed("q", k, keyBodies(k, each)...))
		}
		// What is out is counted in the state itself, after every answer.
		check := func() {
			t.Helper()
			_, err := l.g.Read(t.Context(), false, func(st *fsm.State) {
				n, _ := st.QueueNumber([]byte("q"))
				out := map[string]int{}
				st.Peek(n, fsm.StateLeased, fsm.ID{}, func(in *fsm.Info) bool { out[keyOfBody(string(in.Body))]++; return true })
				for k, n := range out {
					if n > limit {
						t.Errorf("%d of key %s are out, want at most %d", n, k, limit)
					}
				}
			})
			must(t, err)
		}
		acked := 0
		for round := 0; acked < keys*each; round++ {
			if round == 40 {
				t.Fatalf("%d of %d done: %+v", acked, keys*each, l.stats("q"))
			}
			l = c.leader()
			type worker struct {
				s  *Session
				cn *conn
				at int
			}
			var ws []worker
			for range 20 {
				s, cn, _ := l.attach(t)
				must(t, s.Subscribe(1, "q", 5, 0, "w"))
				ws = append(ws, worker{s: s, cn: cn})
			}
			for range 8 {
				pass(30 * time.Millisecond)
				check()
				for i := range ws {
					w := &ws[i]
					for _, d := range w.cn.have(1)[w.at:] {
						w.at++
						switch (w.at + i + round) % 5 {
						case 0:
							l.do(t, &fsm.Release{Token: d.token})
						case 1:
							l.do(t, &fsm.Nack{Token: d.token, DelayMillis: 10})
						default:
							l.do(t, &fsm.Ack{Token: d.token})
							acked++
						}
					}
				}
				check()
			}
			for i := range ws {
				ws[i].s.Detach()
			}
			if round == 1 {
				if err := l.g.Raft().LeadershipTransfer().Error(); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.agree()
	})
}

// The rate of each key is kept by eight consumers over changes of the leader, and those who wait for a held key get it in time.
func TestRatePerKeyOverLeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		l.do(t, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{RatePerKeyMilli: 20_000, BurstPerKey: 3, LeaseMillis: 3_600_000}})
		const keys, each = 5, 60
		for i := range keys {
			k := fmt.Sprint("k", i)
			l.do(t, enqueueKeyed("q", k, keyBodies(k, each)...))
		}
		began := time.Now()
		var cs []*conn
		all := func() (ds []delivered) {
			for _, cn := range cs {
				ds = append(ds, cn.have(1)...)
			}
			return ds
		}
		for round := range 3 {
			l = c.leader()
			for range 8 {
				s, cn, _ := l.attach(t)
				cs = append(cs, cn)
				must(t, s.Subscribe(1, "q", 100, 0, "w"))
			}
			c.until(20*time.Second, "more delivered", func() bool { return len(all()) >= keys*each*(round+1)/3 })
			if round == 0 {
				if err := l.g.Raft().LeadershipTransfer().Error(); err != nil {
					t.Fatal(err)
				}
			} else if round == 1 {
				c.kill(l)
				c.start(l)
			}
		}
		took := time.Since(began)
		per := map[string][]delivered{}
		for _, d := range all() {
			per[keyOfBody(d.body)] = append(per[keyOfBody(d.body)], d)
		}
		for k, ds := range per {
			if len(ds) != each {
				t.Errorf("%d deliveries of key %s, want %d", len(ds), k, each)
			}
			withinRate(t, ds, 50*time.Millisecond, 3)
		}
		if least := 57 * 50 * time.Millisecond; took < least-100*time.Millisecond || took > least+6*time.Second { // two elections
			t.Errorf("took %v, want %v and what two elections take", took, least)
		}
		index := l.g.Raft().LastIndex()
		pass(time.Minute)
		if grown := l.g.Raft().LastIndex() - index; grown > 5 { // what is given back of debts
			t.Errorf("%d entries in an idle minute", grown)
		}
		c.agree()
	})
}

// waits are how long the messages of a hundred tenants wait for four workers that take 5 ms each: one of the tenants sends a flood
// if flood is not 0.
func waits(t *testing.T, o fsm.QueueOptions, flood int) (worst time.Duration) {
	c := newCluster(t, 3, nil)
	defer c.stop()
	l := c.leader()
	o.LeaseMillis = 3_600_000
	l.do(t, &fsm.CreateQueue{Name: []byte("q"), Options: o})
	var cs []*conn
	for range 4 {
		s, cn, _ := l.attach(t)
		must(t, s.Subscribe(1, "q", 1, 0, "w"))
		cs = append(cs, cn)
	}
	for done := 0; done < flood; done += 500 {
		l.do(t, enqueueKeyed("q", "flood", keyBodies("flood", 500)...))
	}
	sent := map[string]time.Time{}
	const tenants = 100
	for i := range tenants - 1 {
		k := fmt.Sprint("t", i)
		l.send(enqueueKeyed("q", k, k+"/0")).wait(t)
		sent[k] = time.Now()
	}
	at := make([]int, len(cs))
	for got := 0; got < tenants-1; {
		pass(5 * time.Millisecond)
		for i, cn := range cs {
			for _, d := range cn.have(1)[at[i]:] {
				at[i]++
				if k := keyOfBody(d.body); k != "flood" {
					got++
					worst = max(worst, time.Since(sent[k]))
				}
				l.do(t, &fsm.Ack{Token: d.token})
			}
		}
		if slices.Max(at) > flood+tenants {
			t.Fatal("the tenants are not served")
		}
	}
	return worst
}

// A tenant's flood does not double the wait of 99 others, where keys take turns; where they do not, it does.
func TestFloodOfOneTenant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fair := fsm.QueueOptions{FairBy: fsm.FairByKey}
		calm, flooded := waits(t, fair, 0), waits(t, fair, 5000)
		unfair := waits(t, fsm.QueueOptions{}, 5000)
		t.Logf("the longest wait: %v without a flood, %v with it, %v with it and without turns", calm, flooded, unfair)
		if flooded >= 2*calm {
			t.Errorf("waits of up to %v beside a flood, %v without: want less than twice as long", flooded, calm)
		}
		if unfair < 5*calm {
			t.Errorf("without turns the flood makes no difference: %v and %v: this test shows nothing", unfair, calm)
		}
		limited := waits(t, fsm.QueueOptions{MaxInFlightPerKey: 1}, 5000)
		t.Logf("%v with a limit in flight of one a key", limited)
		if limited >= 2*calm {
			t.Errorf("waits of up to %v beside a flood of which one is out, %v without a flood", limited, calm)
		}
	})
}
