package group

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/calendar"
	"github.com/quorate/quorate/fsm"
)

func everySecond(name string, policy fsm.MissedPolicy) *fsm.CreateSchedule {
	return &fsm.CreateSchedule{Schedule: fsm.Schedule{
		Name: []byte(name), Queue: []byte("q"), Cron: []byte("* * * * * *"), Policy: policy, AutoCreate: true,
		Message: fsm.Message{Body: []byte("run"), Priority: fsm.DefaultPriority},
	}}
}

func (nd *node) schedule(t testing.TB, name string) (in fsm.ScheduleInfo) {
	t.Helper()
	found := false
	if _, err := nd.g.Read(t.Context(), true, func(st *fsm.State) { in, found = st.Schedule([]byte(name)) }); err != nil || !found {
		t.Fatalf("schedule %q: found %t, %v", name, found, err)
	}
	return in
}

// fireTimes are those of the messages in queue q, in order; one that is there twice fails the test.
func (nd *node) fireTimes(t testing.TB, name string) (times []int64) {
	t.Helper()
	seen := map[int64]bool{}
	_, err := nd.g.Read(t.Context(), true, func(st *fsm.State) {
		n, _ := st.QueueNumber([]byte("q"))
		st.Peek(n, fsm.StateReady, fsm.ID{}, func(in *fsm.Info) bool {
			var at int64
			rest, ok := bytes.CutPrefix(in.TaskID, []byte(name+"@"))
			if !ok {
				return true
			}
			if _, err := fmt.Sscan(string(rest), &at); err != nil {
				t.Errorf("task id %q", in.TaskID)
			}
			if seen[at] {
				t.Errorf("fire time %d is there twice", at)
			}
			seen[at] = true
			times = append(times, at)
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return times
}

func TestSchedulesFire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		l.do(t, everySecond("d", fsm.MissedSkip))
		minutely := everySecond("m", fsm.MissedSkip)
		minutely.Schedule.Cron, minutely.Schedule.Zone = []byte("*/2 * * * *"), []byte("Europe/Berlin")
		l.do(t, minutely)
		began := time.Now().UnixMilli()
		pass(2*time.Minute + 500*time.Millisecond)
		times := l.fireTimes(t, "d")
		if len(times) != 120 {
			t.Errorf("%d firings in two minutes and a half second, want 120", len(times))
		}
		for i, at := range times {
			if want := began - began%1000 + int64(i+1)*1000; at != want {
				t.Fatalf("firing %d is for %d, want %d", i, at, want)
			}
		}
		if n := len(l.fireTimes(t, "m")); n != 1 {
			t.Errorf("%d firings every two minutes, want 1", n)
		}
		// Written on time: T of a message lies within 100 ms of its fire time.
		if _, err := l.g.Read(t.Context(), true, func(st *fsm.State) {
			n, _ := st.QueueNumber([]byte("q"))
			st.Peek(n, fsm.StateReady, fsm.ID{}, func(in *fsm.Info) bool {
				at := string(in.Headers[1].Value)
				var ms int64
				if _, err := fmt.Sscan(at, &ms); err != nil || in.EnqueuedAt < ms || in.EnqueuedAt > ms+100 {
					t.Errorf("fired %d ms late (%v)", in.EnqueuedAt-ms, err)
				}
				return true
			})
		}); err != nil {
			t.Fatal(err)
		}
		c.agree()
	})
}

// An idle leader with a schedule that is far away writes nothing.
func TestScheduleFarAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		defer c.stop()
		l := c.leader()
		yearly := everySecond("y", fsm.MissedAll)
		yearly.Schedule.Cron = []byte("@yearly")
		l.do(t, yearly)
		never := everySecond("n", fsm.MissedAll)
		never.Schedule.Cron = []byte("0 0 30 2 *")
		l.do(t, never)
		bad := everySecond("bad", fsm.MissedAll)
		bad.Schedule.Zone = []byte("Europe/Nowhere") // which another build may know
		l.do(t, bad)
		pass(time.Second)
		before := l.g.Status().LastLog
		pass(10 * time.Second)
		if after := l.g.Status().LastLog; after != before {
			t.Errorf("%d entries while nothing was due", after-before)
		}
		if in := l.schedule(t, "n"); in.Next != fsm.FireNever {
			t.Errorf("30 February is at %d", in.Next)
		}
		if in := l.schedule(t, "y"); in.Next <= time.Now().UnixMilli() {
			t.Errorf("next is %d", in.Next)
		}
	})
}

// Leaders are cut off, killed and made to hand over while a schedule fires each second: each fire time has one message.
func TestSchedulesOverLeaderChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		for i := range 5 {
			l.do(t, everySecond(fmt.Sprint("s", i), fsm.MissedAll))
		}
		began := time.Now()
		for round := range 24 {
			// Shortly before, at, and shortly after the second.
			pass(time.Until(time.Now().Truncate(time.Second).Add(2*time.Second + time.Duration(round%8-4)*2*time.Millisecond)))
			l = c.leader()
			switch round % 3 {
			case 0: // its proposals hang, and are unknown or refused when it comes back
				c.cut(l)
				pass(1500 * time.Millisecond)
				c.join(l)
			case 1:
				c.kill(l)
				pass(700 * time.Millisecond)
				c.start(l)
			case 2:
				_ = l.g.Raft().LeadershipTransfer().Error() // the other fate is as good
			}
		}
		pass(3 * time.Second)
		l = c.leader()
		seconds := int(time.Since(began) / time.Second)
		for i := range 5 {
			name := fmt.Sprint("s", i)
			times := l.fireTimes(t, name)
			if len(times) < seconds-1 || len(times) > seconds+1 {
				t.Errorf("%s: %d firings in %d s", name, len(times), seconds)
			}
			for j := 1; j < len(times); j++ {
				if times[j] != times[j-1]+1000 {
					t.Errorf("%s: %d follows %d", name, times[j], times[j-1])
				}
			}
			if in := l.schedule(t, name); in.Fired != int64(len(times)) || in.Skipped != 0 || in.Refused != 0 {
				t.Errorf("%s counts %d fired, %d skipped, %d refused of %d", name, in.Fired, in.Skipped, in.Refused, len(times))
			}
		}
		c.agree()
	})
}

// What a deposed leader had computed reaches the log after its successor has fired: it changes nothing.
func TestFiringOfADeposedLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		old := c.leader()
		old.do(t, everySecond("d", fsm.MissedAll))
		pass(1100 * time.Millisecond)
		in := old.schedule(t, "d")
		zone, _ := calendar.Zone("")
		cal, err := calendar.Parse(in.Cron, zone)
		if err != nil {
			t.Fatal(err)
		}
		computed := steps(cal, &in, in.Next)
		if len(computed) != 1 || !computed[0].Fire {
			t.Fatalf("computed %+v, want one firing", computed)
		}
		c.cut(old)
		pass(3 * time.Second)
		l := c.leader()
		before := len(l.fireTimes(t, "d"))
		if a := l.send(&computed[0]).wait(t); a.err != nil || a.out[0].Code != fsm.FailedPrecondition {
			t.Errorf("the late step ended in %+v, %v", a.out, a.err)
		}
		if after := len(l.fireTimes(t, "d")); after != before || before < 3 {
			t.Errorf("%d messages, then %d", before, after)
		}
		c.join(old)
		pass(2 * time.Second)
		c.agree()
	})
}

// All nodes were down for a while: the policy says what becomes of the times that nobody could fire.
func TestMissedRuns(t *testing.T) {
	for _, tc := range []struct {
		name           string
		policy         fsm.MissedPolicy
		down           time.Duration
		cron           string
		fired, skipped int // of the minutes that began from the fall to half a minute after the rise; the last one before the rise is not late enough to be missed
	}{
		{"skip", fsm.MissedSkip, 10 * time.Minute, "0 * * * * *", 2, 9},
		{"once", fsm.MissedOnce, 10 * time.Minute, "0 * * * * *", 3, 8},
		{"all", fsm.MissedAll, 10 * time.Minute, "0 * * * * *", 11, 0},
		{"all, but a hundred", fsm.MissedAll, 5 * time.Hour, "0 * * * * *", 102, 199},
		{"an election is no outage", fsm.MissedSkip, 10 * time.Second, "0/2 * * * * *", 20, 0},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 3, nil)
				defer c.stop()
				pass(time.Until(time.Now().Truncate(time.Minute).Add(50 * time.Second)))
				op := everySecond("d", tc.policy)
				op.Schedule.Cron = []byte(tc.cron)
				c.leader().do(t, op)
				pass(200 * time.Millisecond)
				for _, nd := range c.nodes {
					c.kill(nd)
				}
				pass(tc.down - 200*time.Millisecond)
				for _, nd := range c.nodes {
					c.start(nd)
				}
				c.leader()
				pass(30 * time.Second)
				l := c.leader()
				in := l.schedule(t, "d")
				if n := len(l.fireTimes(t, "d")); n != tc.fired || in.Fired != int64(tc.fired) || in.Skipped != int64(tc.skipped) {
					t.Errorf("%d messages, %d fired, %d skipped; want %d fired, %d skipped", n, in.Fired, in.Skipped, tc.fired, tc.skipped)
				}
				c.agree()
			})
		})
	}
}

// Steps of ten thousand schedules at one moment go round by round, and none is left.
func TestManySchedulesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		const n = 2000
		ones := make([]*one, 0, n)
		for i := range n {
			op := everySecond(fmt.Sprint("s", i), fsm.MissedSkip)
			op.Schedule.Cron = []byte("0 * * * * *")
			ones = append(ones, l.send(op))
		}
		for _, o := range ones {
			o.wait(t)
		}
		pass(time.Minute + 10*time.Second)
		if got := l.stats("q").Ready; got < n || got > 2*n || got%n != 0 {
			t.Errorf("%d messages of %d schedules", got, n)
		}
		c.agree()
	})
}

func TestStepsFollowJitter(t *testing.T) {
	t.Parallel()
	zone, _ := calendar.Zone("")
	cal, err := calendar.Parse("* * * * *", zone)
	if err != nil {
		t.Fatal(err)
	}
	const at = 1_795_824_000_000
	in := fsm.ScheduleInfo{Name: "j", Generation: 1, Next: at, JitterMillis: 50_000}
	late := fsm.ScheduleJitter([]byte("j"), at, in.JitterMillis)
	if late < 2 {
		t.Fatalf("choose another name: its jitter is %d", late)
	}
	if ops := steps(cal, &in, at+late-1); len(ops) != 0 {
		t.Errorf("a millisecond early: %+v", ops)
	}
	if ops := steps(cal, &in, at+late); len(ops) != 1 || !ops[0].Fire || ops[0].At != at || ops[0].Next != at+60_000 {
		t.Errorf("on time: %+v", ops)
	}
}
