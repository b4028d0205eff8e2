package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
	"github.com/quorate/quorate/client"
)

// Three nodes whose disks fill up: enqueues are refused while there is still room, by an error of their own that health and metrics tell too;
// leases, acks, nacks, deletions and reads go on, and what they let go comes back by itself: enqueues go on without a restart, no node
// has ended, and nothing that was confirmed is lost. (C5)
func TestFullDisk(t *testing.T) {
	const disk, least, size = 64 << 20, 24 << 20, 256 << 10
	f := onDisks(t, forgetfs.Options{Capacity: disk}, chaosBinary(t), 3, "--raft-log-store", "wal", "--limits-disk-free-bytes", fmt.Sprint(least))
	if err := f.Start(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	cl := impatient(t, f.Addrs()...)
	create(t, cl, "full", client.QueueOptions{MaxResultsBytes: 4 << 30})
	body := make([]byte, size)
	confirmed, inRow := 0, 0
	var last error
	eventually(t, 2*time.Minute, "enqueues are refused", func(ctx context.Context) bool {
		for range 20 { // a snapshot takes room and gives it back: only a second of refusals is a full disk
			if _, last = cl.Enqueue(ctx, "full", client.Message{Body: body}); last == nil {
				confirmed, inRow = confirmed+1, 0
				continue
			}
			inRow++
			break
		}
		return inRow >= 50
	})
	if e := refused(t, "an enqueue on a full disk", last, client.ErrNoSpace); e.RetryAfter <= 0 || !strings.Contains(e.Message, "limits.disk_free_bytes") {
		t.Errorf("the refusal is %+v, want a wait, and the setting named", e)
	}
	t.Logf("%d messages of %d bytes fit beside %d on disks of %d", confirmed, size, least, disk)
	if confirmed < 40 || confirmed > (disk-least)/size {
		t.Errorf("%d messages were taken, want 40 at least, and no more than fit", confirmed)
	}

	get := func(path string) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(within(t, 20*time.Second), http.MethodGet, "http://"+leader(t, f.Cluster).ClientAddr+path, nil)
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
	var health struct {
		Ready  bool
		Reason string
	}
	if code, b := get("/readyz"); code != 200 || json.Unmarshal(b, &health) != nil || !health.Ready || !strings.Contains(health.Reason, "enqueues are refused") {
		t.Errorf("readyz says %d %s, want ready, and what is refused", code, b)
	}
	if _, b := get("/metrics"); !bytes.Contains(b, []byte("\nquorate_disk_low 1\n")) {
		t.Error("no metric says that the disk is low")
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
	if code, b := get("/readyz"); code != 200 || json.Unmarshal(b, &health) != nil || health.Reason != "" {
		t.Errorf("readyz says %d %s, want ready and no more", code, b)
	}
}
