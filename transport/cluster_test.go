package transport

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/wire"
)

func TestLeaderAndFollower(t *testing.T) {
	ns := calm(t, 3, Config{})
	leader, follower := ns[0], ns[1]
	p, sid := session(t, leader.addr)
	var ok wire.OK
	p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: "sub", Credit: 1}, wire.TypeOK, &ok)
	q := connect(t, leader.addr)
	id := q.enqueue("q", wire.Message{Body: wire.Bytes("x")})

	f := connect(t, follower.addr)
	waitFor(t, func() bool { return follower.Status().Applied >= leader.Status().Applied })
	for typ, req := range map[wire.Type]any{
		wire.TypeEnqueue:     one("x"),
		wire.TypeOpenSession: &wire.OpenSession{},
		wire.TypeQueueShow:   &wire.QueueRef{Queue: "q"},
		wire.TypeTask:        &wire.TaskGet{Task: wire.TaskRef{TaskID: id}},
		wire.TypeResultGet:   &wire.ResultGet{Task: wire.TaskRef{TaskID: id}},
	} {
		fault := f.refused(typ, req, wire.CodeNotLeader)
		if fault.Leader != leader.addr || fault.Unknown || !fault.Retry {
			t.Errorf("type %d: %+v", typ, fault)
		}
	}
	var is wire.QueueIs
	f.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "q", Stale: true}, wire.TypeQueueIs, &is)
	if is.Queue.Pending != 1 || is.At.Index == 0 {
		t.Errorf("stale: %+v", is)
	}
	var task wire.TaskIs
	f.ask(wire.TypeTask, &wire.TaskGet{Task: wire.TaskRef{TaskID: id}, Stale: true}, wire.TypeTaskIs, &task)

	var cl wire.ClusterIs
	f.ask(wire.TypeClusterStatus, &wire.ClusterStatus{}, wire.TypeClusterIs, &cl)
	if cl.Leader != string(leader.id) || len(cl.Nodes) != 3 || cl.Term == 0 || len(cl.Cluster) != 32 {
		t.Errorf("cluster is %+v", cl)
	}
	var v wire.Verified
	p.ask(wire.TypeClusterVerify, &wire.ClusterVerify{}, wire.TypeVerified, &v)
	if !v.Equal || len(v.Nodes) != 3 || len(v.Nodes[0].Digest) != 64 || v.Nodes[0].Digest != v.Nodes[2].Digest || v.Index == 0 {
		t.Errorf("verified %+v", v)
	}
	f.refused(wire.TypeClusterVerify, &wire.ClusterVerify{}, wire.CodeNotLeader)
	fault := p.refused(wire.TypeClusterRemove, &wire.ClusterRemove{Node: "n2"}, wire.CodeFailedPrecondition)
	if !strings.Contains(fault.Message, "majority") {
		t.Errorf("got %+v", fault)
	}

	_, text, _ := get(t, "http://"+leader.addr+"/metrics")
	if !strings.Contains(text, `quorate_queue_pending_total{kind="",queue="q"} 1`) {
		t.Error("the leader exports no queues")
	}
	if _, text, _ = get(t, "http://"+follower.addr+"/metrics"); strings.Contains(text, "quorate_queue_") || !strings.Contains(text, "quorate_leading 0\n") {
		t.Error("a follower exports queues")
	}

	// Leadership moves: the session's connection is told, and the session goes on where it leads.
	q.tag++
	q.send(wire.TypeClusterTransfer, q.tag, &wire.ClusterTransfer{})
	var r wire.Redirect
	p.answer(0, wire.TypeRedirect, &r)
	if r.Reason != "not_leader" {
		t.Errorf("redirected %+v", r)
	}
	waitFor(t, func() bool { a := leader.Status().LeaderAddr; return a != "" && a != leader.addr })
	ns = leaderFirst(t, ns)
	for typ, req := range map[wire.Type]any{
		wire.TypeSubscribe:   &wire.Subscribe{Sub: 2, Queue: "sub", Credit: 1},
		wire.TypeOpenSession: &wire.OpenSession{Session: sid},
	} {
		var f wire.Fault
		p.ask(typ, req, wire.TypeFault, &f)
		if f.Code != wire.CodeNotLeader && f.Code != wire.CodeNoLeader || f.Unknown || !f.Retry {
			t.Errorf("type %d where nobody leads any more: %+v", typ, f)
		}
	}
	p2 := connect(t, ns[0].addr)
	var so wire.SessionOpened
	p2.ask(wire.TypeOpenSession, &wire.OpenSession{Session: sid}, wire.TypeSessionOpened, &so)
	if so.Session != sid {
		t.Errorf("attached %+v", so)
	}
	d := p2.pull("q")
	if d.ID != id {
		t.Errorf("got %+v", d)
	}
}

// A session that is attached by a second connection leaves the first, which is closed.
func TestSessionReplaced(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, sid := session(t, n.addr)
	q := connect(t, n.addr)
	var so wire.SessionOpened
	q.ask(wire.TypeOpenSession, &wire.OpenSession{Session: sid}, wire.TypeSessionOpened, &so)
	var r wire.Redirect
	p.answer(0, wire.TypeRedirect, &r)
	if code, _, _ := p.closed(); code != CloseReplaced || r.Reason != "replaced" {
		t.Errorf("closed with %d after %+v", code, r)
	}
	var ok wire.OK
	q.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: "sub", Credit: 1}, wire.TypeOK, &ok)
	expired := connect(t, n.addr)
	expired.refused(wire.TypeOpenSession, &wire.OpenSession{Session: strings.Repeat("0", 25) + "7"}, wire.CodeSessionExpired)
	expired.ask(wire.TypeOpenSession, &wire.OpenSession{}, wire.TypeSessionOpened, &so)
}

func TestQueueMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	n := stations(t, 1, Config{Registry: reg, MetricQueues: 2})[0]
	p, _ := session(t, n.addr)
	for range 3 {
		p.enqueue("a", wire.Message{Body: wire.Bytes("x")})
	}
	p.enqueue("b", wire.Message{})
	p.enqueue("c", wire.Message{})
	d := p.pull("a")
	var acked wire.Acked
	p.ask(wire.TypeAck, &wire.Ack{Token: d.Token}, wire.TypeAcked, &acked)
	d = p.pull("a")
	var nacked wire.Nacked
	p.ask(wire.TypeNack, &wire.Nack{Token: d.Token, Permanent: true}, wire.TypeNacked, &nacked)
	var ok wire.OK
	p.ask(wire.TypeQueueSet, &wire.QueueWrite{Queue: "b", Options: wire.QueueOptions{MaxDepth: 1, Overflow: wire.OverflowDropOldest, MaxInFlight: 7, RateMilli: 2500, Paused: true}}, wire.TypeOK, &ok)
	p.enqueue("b", wire.Message{})
	_, text, _ := get(t, "http://"+n.addr+"/metrics")
	for _, line := range []string{
		`quorate_queue_overflowed_total{queue="b"} 1`, `quorate_queue_dead_total{kind="",queue="b",reason="overflow"} 1`, `quorate_queue_paused{queue="b"} 1`,
		`quorate_queue_paused{queue="a"} 0`, `quorate_queue_limit{limit="max_depth",queue="b"} 1`, `quorate_queue_limit{limit="max_in_flight",queue="b"} 7`,
		`quorate_queue_limit{limit="rate",queue="b"} 2.5`, `quorate_queue_parked{queue="b"} 0`, `quorate_queue_key_debts{queue="b"} 0`,
		`quorate_queue_pending_total{kind="",queue="a"} 1`, `quorate_queue_leased{queue="a"} 0`, `quorate_queue_dead{queue="a"} 1`,
		`quorate_queue_enqueued_total{queue="a"} 3`, `quorate_queue_ack_total{kind="",queue="a"} 1`, `quorate_queue_nack_total{queue="a"} 1`,
		`quorate_queue_dead_total{kind="",queue="a",reason="permanent"} 1`, `quorate_queue_dead_total{kind="",queue="a",reason="expired"} 0`,
		`quorate_queue_pending_total{kind="",queue="b"} 1`, `quorate_queues 3`, `quorate_queues_unexported 1`, `quorate_leading 1`,
		`quorate_connections 1`, `quorate_enqueue_commit_seconds_count 6`, `quorate_enqueue_to_lease_seconds_count 2`,
		`quorate_lease_to_ack_seconds_count 1`, `quorate_state_records{table="messages"} 3`, `quorate_slow_consumers_total{what="closed"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	if strings.Contains(text, `{queue="c"}`) {
		t.Error("more queues than MetricQueues")
	}
	if strings.Contains(text, `quorate_queue_limit{limit="max_bytes"`) || strings.Contains(text, `quorate_queue_limit{limit="rate",queue="a"}`) {
		t.Error("a limit that is not set has a series")
	}
	p.ask(wire.TypeQueueDelete, &wire.QueueRef{Queue: "a"}, wire.TypeOK, &ok)
	_, text, _ = get(t, "http://"+n.addr+"/metrics")
	if strings.Contains(text, `queue="a"`) || !strings.Contains(text, `queue="c"`) {
		t.Error("series of a deleted queue stay, or its place is not given to the next")
	}
	if t.Failed() {
		t.Log(text)
	}
}
