package httpapi

import (
	"encoding/json"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// A leader that dies under a request may have carried it out, whatever became of the connection on which net/http tries again by itself: only what it
// was never sent, or what writes nothing, is refused.
func TestLeaderDiesUnderARequest(t *testing.T) {
	const enqueue, poll, read = "/v1/queues/q/messages", "/queue/poll?queue=q", "/v1/queues/q"
	for _, tc := range []struct {
		what, method, path, body string
		key                      []string
		warm                     bool // a connection to the leader is kept
		dead                     bool // nothing listens there
		code                     wire.Code
	}{
		{"keyed, over a connection that was kept", "POST", enqueue, `{"body":1}`, []string{keyHeader, "k"}, true, false, wire.CodeTimeout},
		{"keyed, over a new connection", "POST", enqueue, `{"body":1}`, []string{keyHeader, "k"}, false, false, wire.CodeTimeout},
		{"without a key, over a connection that was kept", "POST", enqueue, `{"body":1}`, nil, true, false, wire.CodeTimeout},
		{"a poll, over a connection that was kept", "GET", poll, "", nil, true, false, wire.CodeTimeout},
		{"a poll, over a new connection", "GET", poll, "", nil, false, false, wire.CodeTimeout},
		{"a read, over a connection that was kept", "GET", read, "", nil, true, false, wire.CodeNoLeader},
		{"a read, over a new connection", "GET", read, "", nil, false, false, wire.CodeNoLeader},
		{"keyed, nobody there", "POST", enqueue, `{"body":1}`, []string{keyHeader, "k"}, false, true, wire.CodeNoLeader},
		{"a poll, nobody there", "GET", poll, "", nil, false, true, wire.CodeNoLeader},
		{"a read, nobody there", "GET", read, "", nil, false, true, wire.CodeNoLeader},
	} {
		t.Run(tc.what, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var dies atomic.Bool
			var came atomic.Int32
			leader := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				came.Add(1)
				if !dies.Load() {
					_, _ = w.Write([]byte("{}"))
					return
				}
				_ = ln.Close()
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.Close()
			})}
			served := make(chan struct{})
			go func() {
				defer close(served)
				_ = leader.Serve(ln)
			}()
			defer func() {
				_ = leader.Close()
				<-served
			}()
			a := newAPI(t, &fakeNode{leader: ln.Addr().String(), away: true}, nil)
			want := int32(1)
			if tc.warm {
				want++
				if w := keyed(a, tc.method, tc.path, tc.body, tc.key...); w.Code != 200 {
					t.Fatalf("the first one: %d %s", w.Code, w.Body)
				}
			}
			dies.Store(true)
			if tc.dead {
				want = 0
				_ = ln.Close()
			}
			w := keyed(a, tc.method, tc.path, tc.body, tc.key...)
			var p Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Code != string(tc.code) {
				t.Errorf("%d %s, want %s", w.Code, w.Body, tc.code)
			}
			if unknown := tc.code == wire.CodeTimeout; (p.Outcome == "unknown") != unknown {
				t.Errorf("outcome %q after %s", p.Outcome, tc.code)
			}
			if got := came.Load(); got != want {
				t.Errorf("%d requests came to the leader, want %d", got, want)
			}
		})
	}
}
