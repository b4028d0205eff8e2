//go:build linux

package netswitch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// numbers are the datagrams that came to a place, by number, in their order.
type numbers struct {
	mu  sync.Mutex
	all []int // guarded by mu
}

// listen collects what comes.
func listen(t *testing.T, s *Switch, at string) *numbers {
	t.Helper()
	c, n := udp(t, s, at), &numbers{}
	if err := c.SetReadBuffer(4 << 20); err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 2048)
		for {
			k, _, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			n.mu.Lock()
			if k >= 4 {
				n.all = append(n.all, int(binary.BigEndian.Uint32(buf)))
			}
			n.mu.Unlock()
		}
	}()
	return n
}

func (n *numbers) got() []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// shoot sends numbered datagrams of a size, few enough at once that no queue of the kernel's overflows, and returns when the switch has seen
// them and the receiver has got all that was handed to it.
func shoot(t *testing.T, s *Switch, c *net.UDPConn, from, to string, n *numbers, count, size int) {
	t.Helper()
	base, had := s.Counts(from, to), len(n.got())
	buf := make([]byte, size)
	for i := range count {
		binary.BigEndian.PutUint32(buf, uint32(i))
		if _, err := c.WriteTo(buf, target(s, to)); err != nil {
			t.Fatal(err)
		}
		if i%50 == 49 || i == count-1 {
			seen(t, s, from, to, base.Seen+int64(i)+1)
		}
	}
	eventually(t, func() string {
		c := s.Counts(from, to)
		if left := c.Seen - c.Cut - c.Lost + c.Doubled - c.Full - c.Delivered; left != 0 {
			return fmt.Sprintf("%d packets are under way", left)
		}
		if got := len(n.got()) - had; int64(got) < c.Delivered-base.Delivered {
			return fmt.Sprintf("%d packets came, %d were handed over", got, c.Delivered-base.Delivered)
		}
		return ""
	})
}

// Losses and duplicates are those that the seed draws, packet for packet; the edges beside lose nothing.
func TestLossAndDuplicates(t *testing.T) {
	s := begin(t, 3)
	shape := Shape{Loss: 30, Duplicate: 20, Seed: seed(t)}
	if err := s.Shape("n1", "n2", shape); err != nil {
		t.Fatal(err)
	}
	sender := udp(t, s, "n1")
	at2, at3 := listen(t, s, "n2"), listen(t, s, "n3")
	const count = 1000
	shoot(t, s, sender, "n1", "n2", at2, count, 100)
	var want []int
	dice := shape.dice(s.edges[1][2].number)
	for i := range count {
		for range shape.draw(dice).copies {
			want = append(want, i)
		}
	}
	if got := at2.got(); !slices.Equal(got, want) {
		t.Errorf("%d datagrams came, the seed draws %d", len(got), len(want))
	}
	// Six standard deviations of 1000 at 30 %, and of 700 at 20 %.
	c := s.Counts("n1", "n2")
	if c.Lost < 213 || c.Lost > 387 || c.Doubled < 70 || c.Doubled > 210 {
		t.Errorf("of %d 30 %% are lost and 20 %% doubled: %+v", count, c)
	}
	shoot(t, s, sender, "n1", "n3", at3, 200, 100)
	if got := at3.got(); len(got) != 200 {
		t.Errorf("of 200 datagrams to the third node %d came", len(got))
	}
	if err := s.Heal(); err != nil {
		t.Fatal(err)
	}
	before := len(at2.got())
	shoot(t, s, sender, "n1", "n2", at2, 200, 100)
	if got := at2.got()[before:]; !slices.IsSorted(got) || len(got) != 200 {
		t.Errorf("healed, of 200 datagrams %d came, in order: %v", len(got), slices.IsSorted(got))
	}
}

// Everything comes, and later; what differs in its delay comes out of order.
func TestDelay(t *testing.T) {
	s := begin(t, 3)
	for _, n := range []string{"n2", "n3"} {
		echo(t, s, n)
	}
	c, other := dial(t, s, "n1", "n2"), dial(t, s, "n1", "n3")
	quickest := func(c net.Conn) time.Duration {
		best := roundTrip(t, c)
		for range 5 {
			best = min(best, roundTrip(t, c))
		}
		return best
	}
	const delay = 80 * time.Millisecond
	clean := quickest(c)
	if err := s.Shape("n2", "n1", Shape{DelayLow: delay, DelayHigh: delay}); err != nil {
		t.Fatal(err)
	}
	late, third := quickest(c), quickest(other)
	if err := s.Heal(); err != nil {
		t.Fatal(err)
	}
	healed := quickest(c)
	t.Logf("there and back: %s; %s late one way %s; the third node %s; healed %s", clean, delay, late, third, healed)
	if late < delay || late > 10*delay || clean >= delay || third >= delay || healed >= delay {
		t.Error("the delay is not where it should be")
	}
}

func TestJitterReorders(t *testing.T) {
	s := begin(t, 2)
	sender, n := udp(t, s, "n1"), listen(t, s, "n2")
	for name, shape := range map[string]Shape{
		"jitter":  {DelayLow: time.Millisecond, DelayHigh: 30 * time.Millisecond, Seed: seed(t)},
		"reorder": {Reorder: 10, Seed: seed(t)},
	} {
		before := len(n.got())
		if err := s.ShapeAll(shape); err != nil {
			t.Fatal(err)
		}
		shoot(t, s, sender, "n1", "n2", n, 300, 100)
		got := n.got()[before:]
		if slices.IsSorted(got) {
			t.Errorf("%s: all come in their order", name)
		}
		slices.Sort(got)
		if len(slices.Compact(got)) != 300 {
			t.Errorf("%s: of 300 datagrams %d came", name, len(got))
		}
	}
}

// A narrow edge takes its time, and loses what has no room to wait.
func TestRate(t *testing.T) {
	s := begin(t, 2)
	sender, n := udp(t, s, "n1"), listen(t, s, "n2")
	if err := s.ShapeAll(Shape{Kbit: 1000}); err != nil {
		t.Fatal(err)
	}
	const count, size = 50, 1000
	began := time.Now()
	shoot(t, s, sender, "n1", "n2", n, count, size)
	took, least := time.Since(began), count*size*8*time.Microsecond
	t.Logf("%d bytes at 1 Mbit/s took %s", count*size, took)
	if took < least || took > 10*least || len(n.got()) != count {
		t.Errorf("%d of %d came in %s, want all in %s or a little more", len(n.got()), count, took, least)
	}
	if !slices.IsSorted(n.got()) {
		t.Error("they overtake each other")
	}
	shoot(t, s, sender, "n1", "n2", n, 150, size)
	if c := s.Counts("n1", "n2"); c.Full == 0 || c.Full+c.Delivered != count+150 {
		t.Errorf("150 kB at once into a line with room for 64: %+v", c)
	}
}

// What is under way when an edge is cut is dropped.
func TestCutDropsWhatIsUnderWay(t *testing.T) {
	s := begin(t, 2)
	sender, n := udp(t, s, "n1"), listen(t, s, "n2")
	if err := s.Shape("n1", "n2", Shape{DelayLow: 5 * time.Second, DelayHigh: 5 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if _, err := sender.WriteTo(make([]byte, 8), target(s, "n2")); err != nil {
		t.Fatal(err)
	}
	seen(t, s, "n1", "n2", 1)
	if err := s.Cut("n1", "n2"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string { return map[bool]string{true: "it is dropped"}[s.Counts("n1", "n2").Cut == 0] })
	if got := n.got(); len(got) != 0 {
		t.Errorf("%d came", len(got))
	}
}

// Connections end with a reset at both ends, idle or busy, through a cut or not; those of others go on, and new ones can be made.
func TestReset(t *testing.T) {
	s := begin(t, 3)
	for _, n := range []string{"n2", "n3"} {
		echo(t, s, n)
	}
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut %v", cut), func(t *testing.T) {
			idle, busy, other := dial(t, s, "n1", "n2"), dial(t, s, Clients, "n2"), dial(t, s, "n1", "n3")
			roundTrip(t, idle)
			roundTrip(t, other)
			ended := make(chan error, 2)
			go func() { // as much as goes
				buf := make([]byte, 64<<10)
				for {
					if _, err := busy.Write(buf); err != nil {
						ended <- err
						return
					}
				}
			}()
			first := make(chan struct{})
			go func() {
				_, err := io.ReadFull(busy, make([]byte, 1<<20))
				close(first)
				if err == nil {
					_, err = io.Copy(io.Discard, busy)
				}
				ended <- err
			}()
			<-first
			if cut {
				if err := s.Isolate("n2", true); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Reset("n2"); err != nil {
				t.Fatal(err)
			}
			if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the idle connection ends with %v, want a reset", err)
			}
			for range 2 { // of its two sides one hears of the reset, and the other that it is over
				if err := <-ended; !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) && err != nil {
					t.Errorf("the busy connection ends with %v, want a reset", err)
				}
			}
			roundTrip(t, other)
			if err := s.Heal(); err != nil {
				t.Fatal(err)
			}
			roundTrip(t, dial(t, s, "n1", "n2"))
		})
	}
	t.Logf("%d resets were sent", s.Resets())
}

// The other end hears of a reset too, also where it only waits.
func TestResetAtTheServer(t *testing.T) {
	s := begin(t, 2)
	var l net.Listener
	err := s.At("n2", func() (err error) {
		l, err = net.Listen("tcp4", s.Host("n2")+":7000")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := dial(t, s, "n1", "n2")
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if _, err := c.Write(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(there, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := s.Reset("n1"); err != nil {
		t.Fatal(err)
	}
	if err := there.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := there.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server's end is ended with %v, want a reset", err)
	}
}
