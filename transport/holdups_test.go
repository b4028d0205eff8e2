package transport

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/push"
	"github.com/quorate/quorate/wire"
)

// Every reason by itself, several at once, and what is no reason: from what is known of the queue to the words.
func TestHoldups(t *testing.T) {
	t.Parallel()
	busy := group.Consumers{Known: true, Subscriptions: 2}
	idle := group.Consumers{Known: true, Subscriptions: 2, Waiting: 1}
	leads := group.Consumers{Known: true}
	unpushed := push.State{}
	two, able := fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Leasable: 2}
	rests := push.State{Does: push.Resting, Why: "503 Service Unavailable: full", Until: time.UnixMilli(1000)}
	for _, tc := range []struct {
		name      string
		stats     fsm.QueueStats
		standing  fsm.Standing
		consumers group.Consumers
		push      push.State
		status    string
		why       string // reasons, and until which T
	}{
		{"empty", fsm.QueueStats{}, fsm.Standing{}, leads, unpushed, "empty", ""},
		{"all out", fsm.QueueStats{Leased: 2}, fsm.Standing{}, leads, unpushed, "working", ""},
		{"delayed", fsm.QueueStats{Scheduled: 2, Leased: 1}, fsm.Standing{Due: 50}, leads, unpushed, "waiting", "scheduled 50"},
		{"retrying", fsm.QueueStats{Retrying: 1}, fsm.Standing{Due: 50}, busy, unpushed, "waiting", "retrying 50"},
		{"both", fsm.QueueStats{Retrying: 1, Scheduled: 1}, fsm.Standing{Due: 50}, busy, unpushed, "waiting", "scheduled, retrying"},
		{"moving", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Leasable: 2}, idle, unpushed, "moving", ""},
		{"moving, for a lease request alone", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Leasable: 2}, group.Consumers{Known: true, Waiting: 1}, unpushed, "moving", ""},
		{"paused", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Paused: true}, idle, unpushed, "held", "paused"},
		{"limit of what is out", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Full: true}, idle, unpushed, "held", "in_flight_limit"},
		{"rate", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, RateUntil: 70}, idle, unpushed, "held", "rate_limited 70"},
		{"behind others", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Behind: true}, idle, unpushed, "held", "keys_blocked"},
		{"limits of keys", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Keys: true}, idle, unpushed, "held", "keys_limited"},
		{"rates of keys", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Keys: true, KeysUntil: 80}, idle, unpushed, "held", "keys_limited 80"},
		{"nobody", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Leasable: 2}, leads, unpushed, "held", "no_consumers"},
		{"all busy", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Leasable: 2}, busy, unpushed, "held", "consumers_busy"},
		{"all busy for want of work", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, RateUntil: 70}, busy, unpushed, "held", "rate_limited 70"},
		{"all at once", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Paused: true, Full: true, RateUntil: 7, Behind: true}, leads, unpushed, "held",
			"paused, in_flight_limit, rate_limited 7, keys_blocked, no_consumers"},
		{"a follower knows of no consumers", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Leasable: 2}, group.Consumers{}, unpushed, "moving", ""},
		{"a follower knows of a pause", fsm.QueueStats{Ready: 2}, fsm.Standing{Ready: 2, Paused: true}, group.Consumers{}, unpushed, "held", "paused"},
		{"push rests", two, able, leads, rests, "held", "push_resting 1000"},
		{"push rests, and is at the end of it", two, able, leads, push.State{Does: push.Resting, Why: "503"}, "held", "push_resting"},
		{"push rests, and what it had is still out", two, able, busy, rests, "held", "push_resting 1000, consumers_busy"},
		{"push rests, and a worker is there", two, able, idle, rests, "moving", ""},
		{"push rests in a paused queue", two, fsm.Standing{Ready: 2, Paused: true}, leads, rests, "held", "paused, push_resting 1000"},
		{"push rests over nothing", fsm.QueueStats{Retrying: 1}, fsm.Standing{Due: 50}, leads, rests, "waiting", "retrying 50"},
		{"pushed, between two subscriptions", two, able, leads, push.State{Does: push.Pushing, Text: "pushing"}, "moving", ""},
		{"pushed, and all are on their way", two, able, busy, push.State{Does: push.Pushing, Text: "pushing"}, "held", "consumers_busy"},
		{"not pushed", two, able, leads, push.State{Does: push.Barred, Text: "not pushed: no secret"}, "held", "no_consumers"},
		{"not pushed yet", two, able, leads, push.State{}, "held", "no_consumers"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := queueStands{QueueStats: tc.stats, standing: tc.standing, consumers: tc.consumers, push: tc.push}
			var is wire.QueueInfo
			q.say(&is)
			if why := reasonsOf(is.Why); is.Status != tc.status || why != tc.why {
				t.Errorf("%s: %s, want %s: %s", is.Status, why, tc.status, tc.why)
			}
			for _, h := range is.Why {
				if h.Text == h.Reason || !strings.Contains(h.Text, " ") {
					t.Errorf("%s has no words: %q", h.Reason, h.Text)
				}
			}
			if is.NotFromLeader == tc.consumers.Known {
				t.Errorf("not from the leader: %v", is.NotFromLeader)
			}
		})
	}
}

// reasonsOf writes holdups as "paused, rate_limited 70".
func reasonsOf(why []wire.Holdup) string {
	var parts []string
	for _, h := range why {
		part := h.Reason
		if h.Until != 0 {
			part += " " + rateText(h.Until*1000)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// One source: frame, HTTP and metrics say the same of queues of a real group.
func TestWhyAQueueStands(t *testing.T) {
	far := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	n := stations(t, 1, Config{PushState: func(queue string) push.State {
		return map[string]push.State{
			"q-push-rests": {Does: push.Resting, Text: "rests", Why: "503: full", Until: far}, "q-pushed": {Does: push.Pushing, Text: "pushing"},
			"q-not-pushed": {Does: push.Barred, Text: "not pushed: no secret \"a\""},
		}[queue]
	}})[0]
	b := browse(t, n.addr)
	fill := func(p *peer, queue string, messages ...wire.Message) {
		for _, m := range messages {
			p.enqueue(queue, m)
		}
	}
	two := []wire.Message{{}, {}}
	var ok wire.OK
	for _, tc := range []struct {
		name    string
		options wire.QueueOptions
		make    func(p *peer, q string)
		status  string
		why     string // reasons
		times   int    // how many of them have one
		words   string // in the first text
	}{
		{"empty", wire.QueueOptions{}, func(*peer, string) {}, "empty", "", 0, ""},
		{"nobody", wire.QueueOptions{}, func(p *peer, q string) { fill(p, q, two...) }, "held", "no_consumers", 0, "no subscription"},
		{"push rests", wire.QueueOptions{PushURL: "http://h"}, func(p *peer, q string) { fill(p, q, two...) }, "held", "push_resting", 1, "rests: 503: full"},
		{"pushed", wire.QueueOptions{PushURL: "http://h"}, func(p *peer, q string) { fill(p, q, two...) }, "moving", "", 0, ""},
		{"not pushed", wire.QueueOptions{PushURL: "http://h"}, func(p *peer, q string) { fill(p, q, two...) }, "held", "no_consumers", 0, `not pushed: no secret "a"`},
		{"not pushed yet", wire.QueueOptions{PushURL: "http://h"}, func(p *peer, q string) { fill(p, q, two...) }, "held", "no_consumers", 0, "has not begun"},
		{"paused", wire.QueueOptions{Paused: true}, func(p *peer, q string) { fill(p, q, two...) }, "held", "paused, no_consumers", 0, "resumed"},
		{"rate", wire.QueueOptions{RateMilli: 1, Burst: 1}, func(p *peer, q string) {
			fill(p, q, two...)
			p.pull(q)
			p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: q, Credit: 5}, wire.TypeOK, &ok)
		}, "held", "rate_limited", 1, "0.001 a second"},
		{"in flight", wire.QueueOptions{MaxInFlight: 1}, func(p *peer, q string) {
			fill(p, q, two...)
			p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: q, Credit: 5}, wire.TypeOK, &ok)
			p.deliveries(1, 1)
		}, "held", "in_flight_limit", 0, "max_in_flight is 1, and 1 messages are out"},
		{"busy", wire.QueueOptions{}, func(p *peer, q string) {
			fill(p, q, two...)
			p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: q, Credit: 1}, wire.TypeOK, &ok)
			p.deliveries(1, 1)
		}, "held", "consumers_busy", 0, "none of the 1 subscriptions has room: 1 messages are out"},
		{"fifo, its first is out", wire.QueueOptions{Ordering: wire.OrderFIFO}, func(p *peer, q string) {
			fill(p, q, two...)
			p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: q, Credit: 5}, wire.TypeOK, &ok)
			p.deliveries(1, 1)
		}, "held", "keys_blocked", 0, "fifo: 1 are out, 0 wait"},
		{"per key, its first retries", wire.QueueOptions{Ordering: wire.OrderPerKey}, func(p *peer, q string) {
			fill(p, q, wire.Message{Key: wire.Bytes("k")}, wire.Message{Key: wire.Bytes("k")})
			d := p.pull(q)
			delay := int64(3600_000)
			var nacked wire.Nacked
			p.ask(wire.TypeNack, &wire.Nack{Token: d.Token, DelayMillis: &delay}, wire.TypeNacked, &nacked)
			p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: q, Credit: 5}, wire.TypeOK, &ok)
		}, "held", "keys_blocked", 0, "of its key: 0 are out, 1 wait"},
		{"keys at their limit", wire.QueueOptions{MaxInFlightPerKey: 1}, func(p *peer, q string) {
			fill(p, q, wire.Message{Key: wire.Bytes("k")}, wire.Message{Key: wire.Bytes("k")})
			p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: q, Credit: 5}, wire.TypeOK, &ok)
			p.deliveries(1, 1)
		}, "held", "keys_limited", 0, "max_in_flight_per_key is 1"},
		{"keys at their rate", wire.QueueOptions{RatePerKeyMilli: 1, BurstPerKey: 1}, func(p *peer, q string) {
			fill(p, q, wire.Message{Key: wire.Bytes("k")}, wire.Message{Key: wire.Bytes("k")})
			p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: q, Credit: 5}, wire.TypeOK, &ok)
			p.deliveries(1, 1)
		}, "held", "keys_limited", 1, "rate_per_key is 0.001 a second"},
		{"later", wire.QueueOptions{}, func(p *peer, q string) { fill(p, q, wire.Message{DelayMillis: 3600_000}) }, "waiting", "scheduled", 1, "1 messages are scheduled"},
		{"all out", wire.QueueOptions{}, func(p *peer, q string) {
			fill(p, q, wire.Message{})
			p.pull(q)
		}, "working", "", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b.t = t
			q := "q-" + strings.NewReplacer(" ", "-", ",", "").Replace(tc.name)
			p, _ := session(t, n.addr)
			p.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: q, Options: tc.options}, wire.TypeOK, &ok)
			tc.make(p, q)
			other := connect(t, n.addr) // p is delivered to
			var is wire.QueueIs
			other.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: q}, wire.TypeQueueIs, &is)
			var reasons []string
			times := 0
			for _, h := range is.Queue.Why {
				reasons = append(reasons, h.Reason)
				if h.Until != 0 {
					times++
				}
				if h.Until != 0 && h.Until < is.At.Time {
					t.Errorf("%s until %d, before T %d", h.Reason, h.Until, is.At.Time)
				}
			}
			why := strings.Join(reasons, ", ")
			if is.Queue.Status != tc.status || why != tc.why || times != tc.times {
				t.Errorf("%s: %s (%d times), want %s: %s (%d)", is.Queue.Status, why, times, tc.status, tc.why, tc.times)
			}
			if tc.words != "" && (len(reasons) == 0 || !strings.Contains(is.Queue.Why[0].Text, tc.words)) {
				t.Errorf("%+v does not say %q", is.Queue.Why, tc.words)
			}
			var stats struct {
				Status string
				Why    []wire.Holdup
			}
			b.ok("GET", "/v1/queues/"+q+"/stats", "", &stats)
			if stats.Status != is.Queue.Status || reasonsOf(stats.Why) != reasonsOf(is.Queue.Why) {
				t.Errorf("HTTP says %s: %s, the frame %s: %s", stats.Status, reasonsOf(stats.Why), is.Queue.Status, reasonsOf(is.Queue.Why))
			}
			for i, h := range stats.Why {
				if h.Text != is.Queue.Why[i].Text {
					t.Errorf("HTTP says %q, the frame %q", h.Text, is.Queue.Why[i].Text)
				}
			}
			text := string(b.plain("GET", "/metrics", "", nil).body)
			for _, r := range reasons {
				if line := `quorate_queue_held{queue="` + q + `",reason="` + r + `"} 1`; tc.status == "held" != strings.Contains(text, line+"\n") {
					t.Errorf("%s in the metrics: %v", line, tc.status != "held")
				}
			}
			if tc.status != "held" && strings.Contains(text, `quorate_queue_held{queue="`+q+`"`) {
				t.Error("the metrics say that the queue is held")
			}
			_ = p.ws.Close()
		})
	}
}

// A node that does not lead says what the state says, and that it knows of no consumers.
func TestWhyOnAFollower(t *testing.T) {
	all := calm(t, 3, Config{})
	b := browse(t, all[1].addr)
	b.steady = true
	b.put("q", `{"body":1}`)
	b.ok("POST", "/v1/queues/q/pause", "", nil)
	type queue struct {
		Stats struct {
			Status    string
			Why       []wire.Holdup
			Consumers *int64
			Idle      *int64 `json:"idle_consumers"`
		}
	}
	var at *station
	waitFor(t, func() bool { // a node that certainly does not lead, whoever does by now
		for _, s := range all {
			if st := s.Status(); !st.Leader && st.LeaderAddr != "" {
				at = s
				return true
			}
		}
		return false
	})
	f := browse(t, at.addr)
	waitFor(t, func() bool { // has it too
		var q queue
		if a := f.send("GET", "/v1/queues/q?stale=1", "", nil); a.status != 200 {
			return false
		}
		f.ok("GET", "/v1/queues/q?stale=1", "", &q)
		if st := at.Status(); st.Leader {
			return true
		}
		return q.Stats.Status == "held" && reasonsOf(q.Stats.Why) == "paused" && q.Stats.Consumers == nil && q.Stats.Idle == nil
	})
	var q queue
	b.ok("GET", "/v1/queues/q", "", &q)
	if q.Stats.Status != "held" || reasonsOf(q.Stats.Why) != "paused, no_consumers" || q.Stats.Consumers == nil || *q.Stats.Consumers != 0 {
		t.Errorf("the leader says %+v", q.Stats)
	}
}
