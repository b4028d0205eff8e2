package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// commit makes the names below the nodes' data directories durable twice a second, as a file system does by itself every few seconds: until
// then what has lost its name takes room. It ends with the test. Another process does it, since this one serves the disks.
func (f *forgetful) commit(t *testing.T) {
	args := []string{}
	for _, n := range f.Nodes {
		args = append(args, filepath.Join(n.DataDir, "raft.wal"), filepath.Join(n.DataDir, "snapshots"))
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if out, err := exec.CommandContext(ctx, "sync", args...).CombinedOutput(); err != nil && ctx.Err() == nil {
				t.Errorf("sync: %v\n%s", err, out)
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

// Three nodes whose disks fill up: enqueues are refused while there is still room, by an error of their own that health and metrics tell too;
// leases, acks, nacks, deletions and reads go on, and what they let go comes back by itself: enqueues go on without a restart, no node
// has ended, and nothing that was confirmed is lost. (C5)
func TestFullDisk(t *testing.T) {
	const disk, least, size = 64 << 20, 24 << 20, 256 << 10
	f := onDisks(t, forgetfs.Options{Capacity: disk}, chaosBinary(t), 3, "--raft-log-store", "wal", "--limits-disk-free-bytes", fmt.Sprint(least))
	if err := f.Start(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	f.commit(t)
	cl := impatient(t, f.Addrs()...)
	create(t, cl, "full", client.QueueOptions{MaxResultsBytes: 4 << 30})
	body := make([]byte, size)
	confirmed := 0
	get := func(n *proc.Node, path string) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(within(t, 20*time.Second), http.MethodGet, "http://"+n.ClientAddr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, b
	}
	ready := func() (code int, reason string) {
		t.Helper()
		var h struct {
			Ready  bool
			Reason string
		}
		code, b := get(leader(t, f.Cluster), "/readyz")
		if err := json.Unmarshal(b, &h); err != nil || h.Ready != (code == 200) {
			t.Fatalf("readyz says %d %s (%v)", code, b, err)
		}
		return code, h.Reason
	}
	low := func() bool {
		return slices.ContainsFunc(f.Nodes, func(n *proc.Node) bool {
			_, b := get(n, "/metrics")
			return bytes.Contains(b, []byte("\nquorate_disk_low 1\n"))
		})
	}
	// A snapshot takes room and gives it back: what refuses one moment may not the next, so a second of refusals, at both ends of which all
	// that tells of it does, is a full disk.
	since := time.Now()
	eventually(t, 2*time.Minute, "enqueues are refused, as health and metrics say", func(ctx context.Context) bool {
		_, err := cl.Enqueue(ctx, "full", client.Message{Body: body})
		if err == nil {
			confirmed++
			since = time.Now()
			return false
		}
		if e := refused(t, "an enqueue on a full disk", err, client.ErrNoSpace); e.RetryAfter <= 0 || !strings.Contains(e.Message, "limits.disk_free_bytes") {
			t.Fatalf("the refusal is %+v, want a wait, and the setting named", e)
		}
		if time.Since(since) < time.Second {
			return false
		}
		code, reason := ready()
		return code == 200 && strings.Contains(reason, "enqueues are refused") && low()
	})
	t.Logf("%d messages of %d bytes fit beside %d on disks of %d", confirmed, size, least, disk)
	if confirmed < 40 || confirmed > (disk-least)/size {
		t.Errorf("%d messages were taken, want 40 at least, and no more than fit", confirmed)
	}
	counts(t, cl, "full", [5]int64{0: int64(confirmed)})

	// What is there is worked off, and the room comes back.
	nack(t, cl, take(t, cl, "full", time.Minute), 0)
	for done := 0; done < confirmed; {
		ds, err := cl.Lease(within(t, time.Minute), "full", client.LeaseOptions{Max: 50, Wait: 20 * time.Second, Lease: time.Minute})
		if err != nil || len(ds) == 0 {
			t.Fatalf("leased %d after %d of %d (%v)", len(ds), done, confirmed, err)
		}
		for _, d := range ds {
			if len(d.Body) != size {
				t.Fatalf("a body of %d bytes", len(d.Body))
			}
			ack(t, cl, d, "")
		}
		done += len(ds)
	}
	counts(t, cl, "full", [5]int64{})
	eventually(t, 30*time.Second, "enqueues go on", func(ctx context.Context) bool {
		_, err := cl.Enqueue(ctx, "full", client.Message{Body: body})
		return err == nil
	})
	for _, n := range f.Nodes {
		if !n.Running() {
			t.Errorf("%s has ended", n.Name)
		}
	}
	verify(t, cl, 3)
	eventually(t, 30*time.Second, "health and metrics say no more of it", func(context.Context) bool {
		code, reason := ready()
		return code == 200 && reason == "" && !low()
	})
}
