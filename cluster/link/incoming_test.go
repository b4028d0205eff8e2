package link

import (
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// A snapshot whose sender falls silent is not waited for, and a peer that asks for nothing is. (G12)
func TestSilenceWithinARequest(t *testing.T) {
	t.Parallel()
	const silence = 100 * time.Millisecond
	short := func(c *Config) { c.Silence = silence }
	from, to := twoTransports(t, short)
	id := raft.ServerID(nodeB.String())
	read := make(chan error, 1)
	done := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(done)
	wg.Go(func() {
		for {
			select {
			case r := <-to.Consumer():
				if r.Reader != nil {
					_, err := io.Copy(io.Discard, r.Reader)
					read <- err
				}
				r.Respond(&raft.RequestVoteResponse{Term: 7}, nil)
			case <-done:
				return
			}
		}
	})

	var resp raft.RequestVoteResponse
	for _, after := range []string{"at first", "after more than that long"} { // over one connection, from the pool
		if err := from.RequestVote(id, "", &raft.RequestVoteRequest{}, &resp); err != nil {
			t.Errorf("a vote %s: %v", after, err)
		}
		time.Sleep(2 * silence) // what is looked at is that nothing comes of it
	}
	const half = 300 << 10 // more than the sender keeps back
	data, more := io.Pipe()
	wg.Go(func() {
		_, _ = more.Write(make([]byte, half))
	})
	wg.Go(func() {
		_ = from.InstallSnapshot(id, "", &raft.InstallSnapshotRequest{Size: 2 * half}, new(raft.InstallSnapshotResponse), data)
	})
	select {
	case err := <-read:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("half a snapshot was read with %v, want a time-out", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("raft still waits for the other half")
	}
	_ = more.CloseWithError(io.ErrClosedPipe)
}
