package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// journal takes in log lines.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(b)
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

// lines are the lines with a message, each a map.
func (j *journal) lines(t *testing.T, msg string) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(j.text()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if m["msg"] == msg {
			lines = append(lines, m)
		}
	}
	return lines
}

// Every request has one line with what was asked and what became of it, every WebSocket two; and nothing that could be a secret is in any.
func TestAccessLog(t *testing.T) {
	var j journal
	n := stations(t, 1, Config{AccessLog: j.logger()})[0]
	b := browse(t, n.addr)
	b.put("q", `{"body":"SECRET-body","headers":{"x":"SECRET-header"},"task_id":"SECRET-task"}`)
	m := b.takeOne("q")
	b.ok("POST", "/v1/leases/"+m.Token+"/ack", `{"result":{"output":"SECRET-output"}}`, nil)
	b.plain("GET", "/v1/queues/q?token=SECRET-query", "", map[string]string{"Authorization": "Bearer SECRET-bearer", "X-Request-Id": "mine", "Cookie": "SECRET-cookie"})
	b.plain("GET", "/v1/kv/SECRET-key", "", nil)
	b.plain("GET", "/SECRET-path?x=SECRET-query", "", nil)
	b.plain("POST", "/hook/SECRET-hook", "SECRET-hook-body", map[string]string{"X-Signature": "SECRET-signature"})
	b.plain("GET", "/healthz", "", nil)
	b.plain("GET", "/v1/ws", "", nil)
	p, _ := session(t, n.addr)
	p.enqueue("q", wire.Message{Body: wire.Bytes("SECRET-frame")})
	_ = p.ws.Close()

	waitFor(t, func() bool { return len(j.lines(t, "websocket closed")) == 1 && len(j.lines(t, "http")) >= 9 })
	text := j.text()
	if at := strings.Index(text, "SECRET"); at >= 0 {
		t.Errorf("a secret in the log: %s", text[at:min(len(text), at+40)])
	}
	if strings.Contains(text, m.Token) || strings.Contains(text, m.ID) {
		t.Error("a token or an id in the log")
	}
	got := map[string]map[string]any{}
	for _, l := range j.lines(t, "http") {
		got[fmt.Sprint(l["method"], " ", l["route"], " ", l["code"])] = l
		if took, ok := l["took"].(float64); !ok || took < 0 || l["remote"] == "" {
			t.Errorf("a line without its time or remote address: %v", l)
		}
	}
	for _, want := range []string{
		"POST /v1/queues/{q}/messages 201", "POST /v1/queues/{q}/lease 200", "POST /v1/leases/{token}/ack 200", "GET /v1/queues/{q} 400",
		"GET /v1/kv/{key...} 404", "GET none 404", "POST /hook/ 404", "GET /healthz 200", "GET /v1/ws 400",
	} {
		if got[want] == nil {
			t.Errorf("no line of %s", want)
		}
	}
	if l := got["GET /v1/queues/{q} 400"]; l != nil && (l["request"] != "mine" || l["bytes"].(float64) < 50) {
		t.Errorf("request and bytes: %v", l)
	}
	opened, closed := j.lines(t, "websocket opened"), j.lines(t, "websocket closed")
	if len(opened) != 1 || opened[0]["remote"] != closed[0]["remote"] || closed[0]["bytes_in"].(float64) < 20 || closed[0]["bytes_out"].(float64) < 50 {
		t.Errorf("the WebSocket: %v, %v", opened, closed)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// A webhook has a line like any request, with its route and not the hook's name.
func TestAccessLogOfHooks(t *testing.T) {
	var j journal
	hooks := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	_, addr := doors(t, Config{Hooks: hooks, AccessLog: j.logger()})
	get(t, "http://"+addr+"/hook/SECRET-hook?SECRET=1")
	waitFor(t, func() bool { return len(j.lines(t, "http")) == 1 })
	if l := j.lines(t, "http")[0]; l["route"] != "/hook/" || l["code"] != float64(http.StatusAccepted) || strings.Contains(j.text(), "SECRET") {
		t.Errorf("the line is %v", l)
	}
}

// A request that is sent on has a line on each node, and the leader's says by whom it was sent.
func TestAccessLogOfForwarded(t *testing.T) {
	var j journal
	all := calm(t, 3, Config{AccessLog: j.logger()})
	b := browse(t, all[1].addr)
	b.steady = true
	b.put("q", `{"body":1}`)
	waitFor(t, func() bool {
		by := 0
		for _, l := range j.lines(t, "http") {
			if l["route"] == "/v1/queues/{q}/messages" && l["by"] != nil {
				by++
			}
		}
		return by > 0 || all[1].Status().Leader // which it may have become
	})
}

// What took long is said with its phases, whatever became of it; what was quick, and what waits as it was told to, is not.
func TestSlowLog(t *testing.T) {
	t.Parallel()
	const over = time.Hour // of a clock that the machine has not moved that far
	broker := &fakeBroker{}
	now := broker.Clock().Mono()
	c := &conn{srv: &Server{cfg: Config{Broker: broker}}, remote: "127.0.0.1:9"}
	st := fsm.New(0)
	defer st.Close()
	ack := fsm.AppendOp(nil, &fsm.Ack{Token: fsm.Token{Message: fsm.MakeID(1, 0, 1, 0), Lease: fsm.MakeID(1, 0, 2, 0)}})
	lease := fsm.AppendOp(nil, &fsm.Lease{Queue: []byte("pulled"), Max: 1})
	ok := []fsm.Outcome{{}}
	for _, tc := range []struct {
		name                  string
		call                  call
		ago, packed, applying time.Duration // before now; 0: never
		out                   []fsm.Outcome
		err                   *group.Error
		want                  string // op queue code, and hours of wait, commit, apply
	}{
		{"quick", call{kind: wire.TypeEnqueue, queue: "q"}, over / 2, over / 3, over / 4, ok, nil, ""},
		{"waited", call{kind: wire.TypeEnqueue, queue: "q"}, 5 * over, over, 0, ok, nil, "enqueue q  4 1 0"},
		{"all three", call{kind: wire.TypeQueueSet, queue: "q"}, 9 * over, 6 * over, 2 * over, ok, nil, "queue_set q  3 4 2"},
		{"never proposed", call{kind: wire.TypeEnqueue, queue: "q"}, 2 * over, 0, 0, nil, &group.Error{Code: "overloaded"}, "enqueue q overloaded 2 0 0"},
		{"given up in flight", call{kind: wire.TypeEnqueue, queue: "q"}, 3 * over, 2 * over, 0, nil, &group.Error{Code: "timeout", Unknown: true}, "enqueue q timeout 1 2 0"},
		{"refused by the state", call{kind: wire.TypeEnqueue, queue: "q"}, 3 * over, 2 * over, over, []fsm.Outcome{{Code: fsm.QueueFull}}, nil, "enqueue q queue_full 1 1 1"},
		{"a queue that is known no more", call{kind: wire.TypeAck, Proposal: group.Proposal{Op: ack}}, 3 * over, 2 * over, over, ok, nil, "ack   1 1 1"},
		{"a pull that waited for a message", call{kind: wire.TypeLease, Proposal: group.Proposal{Op: lease}}, 9 * over, over / 2, 0, ok, nil, ""},
		{"a pull that was never in an entry", call{kind: wire.TypeLease, Proposal: group.Proposal{Op: lease}}, 9 * over, 0, 0, nil, nil, ""},
		{"a slow pull", call{kind: wire.TypeLease, Proposal: group.Proposal{Op: lease}}, 9 * over, 3 * over, over, ok, nil, "lease pulled  0 2 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var j journal
			l := newSlowLog(over, j.logger())
			before := func(d time.Duration) time.Duration {
				if d == 0 {
					return 0
				}
				return now - d
			}
			tc.call.mono, tc.call.Packed, tc.call.Applying = before(tc.ago), before(tc.packed), before(tc.applying)
			s := st
			if tc.err != nil {
				s = nil
			}
			l.look(c, &tc.call, s, tc.out, tc.err)
			got := ""
			select {
			case op := <-l.ops:
				got = fmt.Sprintf("%s %s %s %.0f %.0f %.0f", opName(op.kind), op.queue, op.code, op.wait.Hours(), op.commit.Hours(), op.apply.Hours())
				l.write(op)
			default:
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if lines := j.lines(t, "slow operation"); (len(lines) == 1) != (tc.want != "") {
				t.Errorf("lines: %v", lines)
			} else if len(lines) == 1 && (lines[0]["level"] != "WARN" || lines[0]["op"] == "" || lines[0]["took"] == nil || lines[0]["remote"] != "127.0.0.1:9") {
				t.Errorf("the line: %v", lines[0])
			}
		})
	}
}

// However much is slow, few lines are written, and the next one says how many there were not; and a log that nobody reads holds up nobody.
func TestSlowLogIsBounded(t *testing.T) {
	t.Parallel()
	var j journal
	broker := &fakeBroker{}
	c := &conn{srv: &Server{cfg: Config{Broker: broker}}}
	l := newSlowLog(time.Nanosecond, j.logger())
	k := &call{kind: wire.TypeEnqueue, queue: "q", mono: broker.Clock().Mono() - time.Second}
	for range 1000 { // nobody writes
		l.look(c, k, nil, nil, &group.Error{Code: "overloaded"})
	}
	if n := l.left.Load(); n != 1000-slowBurst {
		t.Errorf("%d were left out, want %d", n, 1000-slowBurst)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() { l.keep(done); close(ended) }()
	waitFor(t, func() bool { return len(l.ops) == 0 && len(j.lines(t, "slow operation")) > 0 })
	for range 100_000 {
		l.look(c, k, nil, nil, &group.Error{Code: "overloaded"})
	}
	close(done)
	<-ended
	lines := j.lines(t, "slow operation")
	if most := slowBurst + 2 + int(time.Since(began)/slowEvery); len(lines) > most {
		t.Errorf("%d lines, want at most %d", len(lines), most)
	}
	if lines[0]["left_out"] != float64(1000-slowBurst) {
		t.Errorf("the first line says that %v were left out", lines[0]["left_out"])
	}
}

// A real group says when an operation was packed and when its entry was applied.
func TestSlowLogOfAGroup(t *testing.T) {
	var j journal
	n := stations(t, 1, Config{SlowOver: time.Nanosecond, Logger: j.logger()})[0]
	p, _ := session(t, n.addr)
	p.enqueue("q", wire.Message{})
	d := p.pull("q")
	var acked wire.Acked
	p.ask(wire.TypeAck, &wire.Ack{Token: d.Token}, wire.TypeAcked, &acked)
	waitFor(t, func() bool { return len(j.lines(t, "slow operation")) == 3 })
	for i, op := range []string{"enqueue", "lease", "ack"} {
		l := j.lines(t, "slow operation")[i]
		took, commit, apply := l["took"].(float64), l["commit"].(float64), l["apply"].(float64)
		wait, waits := l["wait"].(float64)
		if l["op"] != op || l["queue"] != "q" || commit <= 0 || apply <= 0 || waits != (op != "lease") || wait+commit+apply != took {
			t.Errorf("line %d, want %s: %v", i, op, l)
		}
	}
}

// Every request is known to go through the log, and has a name then, or not to.
func TestOperationsHaveNames(t *testing.T) {
	t.Parallel()
	others := map[wire.Type]bool{
		wire.TypeOpenSession: true, wire.TypeSubscribe: true, wire.TypeCredit: true, wire.TypeUnsubscribe: true, wire.TypeResume: true, wire.TypeResultGet: true,
		wire.TypeTask: true, wire.TypeResultList: true, wire.TypeQueueList: true, wire.TypeQueueShow: true, wire.TypePeek: true, wire.TypeDeadList: true,
		wire.TypeDeadGet: true, wire.TypeClusterStatus: true, wire.TypeClusterVerify: true, wire.TypeClusterTransfer: true, wire.TypeClusterRemove: true,
		wire.TypeKVGet: true, wire.TypeKVList: true, wire.TypeKVWatch: true, wire.TypeScheduleShow: true, wire.TypeScheduleList: true, wire.TypeBatchShow: true,
	}
	for kind := range requests {
		if (opNames[kind] != "") == others[kind] {
			t.Errorf("type %d is called %q: an operation has a name, and nothing else has one", kind, opName(kind))
		}
	}
}
