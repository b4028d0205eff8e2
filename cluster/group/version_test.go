package group

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// rewritten is a log store that has other bytes at one index than were written: what a node finds in its log that a newer build has led.
type rewritten struct {
	raft.LogStore
	index uint64
	data  []byte
}

func (r rewritten) GetLog(index uint64, l *raft.Log) error {
	err := r.LogStore.GetLog(index, l)
	if index == r.index {
		l.Data = r.data
	}
	return err
}

// TestNewerEntry: a node that finds in its log what only a newer version understands stops before it, at each of its starts, with one line
// that names the entry, what of it is unknown and what to do; the others go on, and the node does with the newer version. (C22)
func TestNewerEntry(t *testing.T) {
	header := fsm.AppendEntryHeader(nil, 0, 0)
	newer := append([]byte(nil), header...)
	newer[0]++
	for _, k := range []struct {
		name string
		data []byte
		says string
	}{
		{"an operation that it does not know", append(header, 250, 1, 2, 3), "operation 250 is unknown to this build"},
		{"an entry of the next format", newer, "entry is of format 2, this build reads 1"},
	} {
		t.Run(k.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 3, nil)
				defer c.stop()
				l := c.leader()
				l.do(t, enqueue("q", "before"))
				at := l.do(t, enqueue("q", "newer")).at.Index
				old := c.followers()[0]
				c.until(10*time.Second, "the follower has it", func() bool { return old.g.Status().Applied >= at })
				logs := old.logs
				for range 3 {
					c.halt(old)
					old.logs = rewritten{logs, at, k.data}
					c.start(old)
					l.do(t, enqueue("q", "meanwhile"))
					select {
					case err := <-old.fatal:
						for _, want := range []string{fmt.Sprintf("apply entry %d of term", at), k.says, "start this node with that version"} {
							if !strings.Contains(err.Error(), want) {
								t.Errorf("it stops with %q, want %q in it", err, want)
							}
						}
					case <-time.After(10 * time.Second):
						t.Fatal("it goes on")
					}
					if got := old.waiting("q"); got != 1 {
						t.Errorf("it has %d messages, want the one before the entry", got)
					}
				}
				if got := l.stats("q").Ready; got != 5 || c.leader() != l {
					t.Errorf("the others have %d messages, want 5, and the same leader", got)
				}
				c.halt(old)
				old.logs = logs
				c.start(old)
				c.until(10*time.Second, "the newer version goes on there", func() bool { return old.g.Status().Applied >= l.g.Status().Applied })
				c.agree()
			})
		})
	}
}
