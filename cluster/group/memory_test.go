package group

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

// Enqueues stop at 85 % of the memory limit; everything else goes on, and makes room for them again.
func TestMemoryLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 8 << 20
		c := newCluster(t, 3, func(cfg *Config) { cfg.Limits.MemoryBytes = limit })
		defer c.stop()
		l := c.leader()
		_, _, id := l.attach(t)
		body := strings.Repeat("x", 64<<10)
		var refusal *Error
		n := 0
		for ; n < 1000 && refusal == nil; n++ {
			if a := l.send(enqueue("q", body)).wait(t); a.err != nil {
				refusal = a.err
			}
			l.g.mu.Lock()
			l.g.weighAt = 0
			l.g.weigh(l.g.clock.Mono())
			l.g.mu.Unlock()
		}
		if refusal == nil || refusal.Code != CodeOverloaded || refusal.Unknown || !strings.Contains(refusal.Message, "memory_bytes") {
			t.Fatalf("after %d messages: %v, want overloaded, naming memory_bytes", n, refusal)
		}
		l.g.mu.Lock()
		held := accounted(l.g.st.Memory())
		l.g.mu.Unlock()
		if held < limit*80/100 || held > limit {
			t.Errorf("refused at %d bytes, want about 85 %% of %d", held, limit)
		}
		a := l.do(t, &fsm.Lease{Queue: []byte("q"), Consumer: fsm.Consumer{Session: id}, Max: 20, LeaseMillis: 60_000})
		if len(a.got) < 3 {
			t.Fatalf("leased %d while full", len(a.got))
		}
		l.do(t, &fsm.Ack{Token: a.got[0].token})
		l.do(t, &fsm.Nack{Token: a.got[1].token, Permanent: true})
		l.do(t, &fsm.DeadPurge{Queue: []byte("q")})
		if a := l.send(enqueue("q", body)).wait(t); a.err == nil {
			t.Error("an enqueue was let in before there was room")
		}
		if a := l.send(under("k", enqueue("q", body))).wait(t); a.err == nil {
			t.Error("an enqueue was let in before there was room, since it has a key")
		}
		l.do(t, &fsm.PurgeQueue{Name: []byte("q")})
		c.until(10*time.Second, "room again", func() bool { return l.send(enqueue("q", body)).wait(t).err == nil })
	})
}

// Schemas, mappings and schedules are the state's too: their texts stand in no table and no arena.
func TestTextsAreAccounted(t *testing.T) {
	const bytes = 60 << 10
	bare := fsm.Memory{ArenaLive: 1, TableBytes: 2, SessionBytes: 4}
	if more := accounted(fsm.Memory{ArenaLive: 1, TableBytes: 2, SessionBytes: 4, MappingBytes: bytes, ScheduleBytes: 8}) - accounted(bare); more != bytes+8 {
		t.Errorf("%d bytes more, want %d", more, bytes+8)
	}
	st := fsm.New(0)
	defer st.Close()
	var fx fsm.Effects
	apply := func(index uint64, op fsm.Op) {
		t.Helper()
		check(t, st.Apply(index, fsm.AppendOp(fsm.AppendEntryHeader(nil, 1000, 0), op), &fx))
	}
	apply(1, &fsm.Bootstrap{Cluster: testCluster16, Epoch: 1})
	before := accounted(st.Memory())
	apply(2, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{Schema: strings.Repeat(" ", bytes)}})
	if more := accounted(st.Memory()) - before; more < bytes {
		t.Errorf("a schema of %d bytes is accounted as %d", bytes, more)
	}
}
