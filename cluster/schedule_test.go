package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/clustertest"
	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
)

// Real nodes on disk, whose leaders are killed while a schedule fires each second: every second has one message.
func TestSchedulesOverKilledLeaders(t *testing.T) {
	c := clustertest.Start(t, 3, clustertest.Options{})
	c.WaitVoters(3)
	create := fsm.AppendOp(nil, &fsm.CreateSchedule{Schedule: fsm.Schedule{
		Name: []byte("s"), Queue: []byte("q"), Cron: []byte("* * * * * *"), Policy: fsm.MissedAll, AutoCreate: true,
		Message: fsm.Message{Body: []byte("run"), Priority: fsm.DefaultPriority},
	}})
	done := make(one, 1)
	c.Leader().Group(0).Propose(&group.Proposal{Op: create, Done: done})
	if r := <-done; r.err != nil || r.out[0].Code != fsm.OK {
		t.Fatalf("create: %+v, %v", r.out, r.err)
	}
	fired := func() (n int64) {
		if _, err := c.Leader().Group(0).Read(bounded(t), true, func(st *fsm.State) {
			in, _ := st.Schedule([]byte("s"))
			n = in.Fired
		}); err != nil {
			return 0
		}
		return n
	}
	for range 4 {
		before := fired()
		c.Until("two more firings", func() bool { return fired() >= before+2 })
		i := c.Index(c.Leader())
		c.Kill(i)
		c.Leader()
		c.Restart(i)
		c.WaitReady()
	}
	before := fired()
	c.Until("two more firings", func() bool { return fired() >= before+2 })
	var times []int64
	if _, err := c.Leader().Group(0).Read(bounded(t), false, func(st *fsm.State) {
		n, _ := st.QueueNumber([]byte("q"))
		st.Peek(n, fsm.StateReady, fsm.ID{}, func(in *fsm.Info) bool {
			var at int64
			if _, err := fmt.Sscan(strings.TrimPrefix(string(in.TaskID), "s@"), &at); err != nil {
				t.Errorf("task id %q", in.TaskID)
			}
			times = append(times, at)
			return true
		})
		if in, _ := st.Schedule([]byte("s")); in.Fired != int64(len(times)) || in.Skipped != 0 || in.Refused != 0 {
			t.Errorf("%d messages, %d fired, %d skipped, %d refused", len(times), in.Fired, in.Skipped, in.Refused)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(times); i++ {
		if times[i] != times[i-1]+time.Second.Milliseconds() {
			t.Errorf("fire time %d follows %d", times[i], times[i-1])
		}
	}
	if len(times) < 10 {
		t.Errorf("%d firings, want ten at least", len(times))
	}
	sameState(t, c, 3)
}
