package sim

import (
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/store"
)

// What is left of a process that has ended takes entries as if all were well, so that raft comes to its end, but none that was damaged on
// its way: raft would act on it, and panic over a membership that it cannot decode.
func TestTheDeadTakeNoDamage(t *testing.T) {
	for _, c := range []struct {
		name    string
		of      raft.LogType
		damage  bool
		refused bool
	}{
		{"a command", raft.LogCommand, false, false},
		{"a membership", raft.LogConfiguration, false, false},
		{"a damaged command", raft.LogCommand, true, true},
		{"a damaged membership", raft.LogConfiguration, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &raft.Log{Index: 1, Term: 1, Type: c.of, Data: []byte("what it is about")}
			store.NewLog(raft.NewInmemStore(), store.NewHalt(func(error) {}), store.LogOptions{}).Seal([]*raft.Log{l})
			if c.damage {
				l.Data[3] ^= 4
			}
			p := &process{halt: store.NewHalt(func(error) {}), disk: (&disk{}).fresh("dead")}
			p.dead.Store(true)
			p.halt.Release()
			err := logs{store.NewLog(failing{raft.NewInmemStore()}, p.halt, store.LogOptions{}), p}.StoreLog(l)
			if refused := err != nil; refused != c.refused {
				t.Errorf("%v, want it refused: %v", err, c.refused)
			}
			if kept := p.disk.GetLog(1, new(raft.Log)) == nil; kept == c.refused {
				t.Errorf("raft finds the entry: %v, and it was refused: %v", kept, c.refused)
			}
		})
	}
}

// failing is a disk that takes nothing any more.
type failing struct{ *raft.InmemStore }

func (failing) StoreLogs([]*raft.Log) error { return raft.ErrRaftShutdown }
