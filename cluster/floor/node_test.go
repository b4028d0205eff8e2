package floor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/leaks"
	"github.com/quorate/quorate/cluster/store"
	"github.com/quorate/quorate/fsm"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// TestThreeNodes has three nodes keep what one of them is given, also where one is told of the others when they have a leader
// that has written to it.
func TestThreeNodes(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late=%v", late), func(t *testing.T) { threeNodes(t, late) })
	}
}

// threeNodes makes nodes anew where their leader lost its post before it was done, as it may on a busy machine: its elections are the
// product's, of 250 ms.
func threeNodes(t *testing.T, late bool) {
	t.Parallel()
	const tries = 5
	for i := range tries {
		err := keepEntries(t, late)
		if err == nil {
			return
		}
		t.Logf("try %d: %v", i+1, err)
	}
	t.Errorf("the leader lost its post in each of %d tries", tries)
}

// keepEntries returns the error of an entry that the leader could not commit.
func keepEntries(t *testing.T, late bool) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	dir, cluster := t.TempDir(), store.NewUUID()
	var nodes []*Node
	var members []Member
	for i := range 3 {
		label := fmt.Sprintf("n%d", i)
		n, err := Open(filepath.Join(dir, label), label, cluster, "127.0.0.1:0", store.Kinds[i%2], func(err error) { t.Errorf("%s: %v", label, err) })
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := n.Close(); err != nil {
				t.Errorf("close %s: %v", label, err)
			}
		}()
		nodes, members = append(nodes, n), append(members, n.Member())
	}
	for i, n := range nodes {
		for late && i == 2 && n.raft.LastIndex() == 0 {
			if ctx.Err() != nil {
				t.Fatal("the first two write nothing to the third")
			}
			<-tick.C
		}
		if err := n.Found(members); err != nil {
			t.Fatal(err)
		}
	}
	var leader *Node
	for leader == nil {
		for _, n := range nodes {
			leads, err := n.Leads(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if leads {
				leader = n
			}
		}
	}
	const entries = 20
	for range entries {
		if err := leader.Apply(bytes.Repeat([]byte{7}, 256))(); err != nil {
			return err
		}
	}
	if got := leader.Applied(); got != entries {
		t.Errorf("the leader has applied %d entries, want %d", got, entries)
	}
	for i, n := range nodes { // followers hear of a commit a little later
		for n.Applied() < entries {
			if ctx.Err() != nil {
				t.Fatalf("node %d has applied %d entries, want %d", i, n.Applied(), entries)
			}
			<-tick.C
		}
		last, err := n.disk.Log.LastIndex()
		if err != nil || last < entries {
			t.Errorf("node %d: the log on disk ends at %d (%v), want %d or more", i, last, err, entries)
		}
	}
	return nil
}

// TestEntry: an entry is what the product's state machine applies, as one message.
func TestEntry(t *testing.T) {
	t.Parallel()
	st := fsm.New(0)
	defer st.Close()
	var fx fsm.Effects
	if err := st.Apply(1, entry([]byte("body")), &fx); err != nil {
		t.Fatal(err)
	}
	if len(fx.Outcomes) != 1 {
		t.Fatalf("%d outcomes, want 1", len(fx.Outcomes))
	}
	if n := len(entry(make([]byte, 256))); n < 256+20 || n > 256+96 {
		t.Errorf("an entry of a message of 256 bytes has %d, want some tens more", n)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "something"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "n1", store.NewUUID(), "127.0.0.1:0", "", nil); err == nil || !strings.Contains(err.Error(), "want an empty one") {
		t.Errorf("a folder with a file in it: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "new"), "n 1", store.NewUUID(), "127.0.0.1:none", "", nil); err == nil {
		t.Error("an impossible address was taken")
	}
	n, err := Open(filepath.Join(dir, "n2"), "n2", store.NewUUID(), "127.0.0.1:0", "", func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := n.Found(nil); err == nil || !strings.Contains(err.Error(), "want 1 to 9") {
		t.Errorf("a group of nobody: %v", err)
	}
}
