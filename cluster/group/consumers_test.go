package group

import (
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

// Who is there to be given messages is known by the leader, at the moment of a read and with the T of that moment.
func TestConsumers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, _, _ := l.attach(t)
		l.do(t, &fsm.CreateQueue{Name: []byte("q")})
		look := func(g *Group) (is Consumers) {
			t.Helper()
			_, err := g.Read(t.Context(), true, func(*fsm.State) { is = g.Consumers("q") })
			must(t, err)
			return is
		}
		want := func(what string, subs, waiting int) {
			t.Helper()
			if is := look(l.g); !is.Known || is.Subscriptions != subs || is.Waiting != waiting {
				t.Errorf("%s: %+v, want %d subscriptions and %d that wait", what, is, subs, waiting)
			}
		}
		want("nobody", 0, 0)
		must(t, s.Subscribe(1, "q", 1, 0, "w"))
		must(t, s.Subscribe(2, "q", 0, 0, "w"))
		must(t, s.Subscribe(3, "other", 5, 0, "w"))
		want("one with room, one paused", 2, 1)
		o := newOne()
		s.Lease(leaseOp(s, o, "q", 1), "q", fsm.Request{}, time.Minute)
		want("and a lease request", 2, 2)
		l.do(t, enqueue("q", "a", "b"))
		o.wait(t)
		c.until(5*time.Second, "both have theirs", func() bool { return look(l.g).Waiting == 0 })
		want("all busy", 2, 0)
		before := look(l.g).Now
		pass(time.Second) // no entry is written meanwhile
		if now := look(l.g).Now; now < before+900 || now > before+1100 {
			t.Errorf("a second later T is %d, and was %d", now, before)
		}
		must(t, s.Unsubscribe(1))
		must(t, s.Unsubscribe(2))
		want("gone", 0, 0)
		for _, n := range c.nodes {
			if is := look(n.g); n != l && is != (Consumers{}) {
				t.Errorf("a follower knows of %+v", is)
			}
		}
	})
}
