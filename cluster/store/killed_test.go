package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

const (
	writerDir   = "QUORATE_TEST_WRITER"       // data directory of a writer process
	writerLimit = "QUORATE_TEST_WRITER_LIMIT" // largest file it may write
	writerKind  = "QUORATE_TEST_WRITER_KIND"  // sort of log that it makes where there is none
	readerDir   = "QUORATE_TEST_READER"       // data directory of a reader process
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		os.Exit(writer(dir))
	}
	if dir := os.Getenv(readerDir); dir != "" {
		os.Exit(reader(dir))
	}
	if path := os.Getenv(fillerPath); path != "" {
		os.Exit(filler(path))
	}
	if dir := os.Getenv(converterDir); dir != "" {
		os.Exit(converter(dir))
	}
	os.Exit(m.Run())
}

// writer opens a data directory, or makes it that of a member, and does what raft does until it is killed or fails, and says on its
// output what it was told is durable.
func writer(dir string) int {
	fail := func(err error) int {
		fmt.Println("failed:", err)
		return 1
	}
	if s := os.Getenv(writerLimit); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return fail(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fail(err)
		}
	}
	d, err := OpenDir(dir, "n1")
	if err != nil {
		return fail(err)
	}
	h := NewHalt(func(err error) { os.Exit(fail(err)) })
	h.Arm()
	snaps, err := OpenSnapshots(d, h)
	if err != nil {
		return fail(err)
	}
	disk, err := OpenDisk(d, h, LogOptions{Kind: Kind(os.Getenv(writerKind)), Floor: snaps.Newest, segment: testSegment})
	if err != nil {
		return fail(err)
	}
	if id := d.Identity(); id.Cluster.IsZero() {
		id.Cluster = UUID{1, 2, 3}
		if err := d.Save(id); err != nil {
			return fail(err)
		}
	}
	go func() {
		out := bufio.NewWriter(os.Stdout)
		last, _ := disk.Log.LastIndex()
		first, _ := disk.Log.FirstIndex()
		rng := rand.New(rand.NewPCG(last, 1))
		for term := last + 1; ; term++ {
			var batch []*raft.Log
			for range 1 + rng.IntN(4) {
				last++
				batch = append(batch, entry(last, term, fmt.Sprintf("%d %s", last, strings.Repeat("x", rng.IntN(2000)))))
			}
			if disk.Log.StoreLogs(batch) != nil {
				return // the process ends
			}
			fmt.Fprintln(out, "stored", last)
			switch rng.IntN(12) {
			case 0:
				if disk.Stable.SetUint64([]byte("CurrentTerm"), term) != nil {
					return
				}
				fmt.Fprintln(out, "term", term)
			case 1:
				if last < first+50 {
					break
				}
				k, err := snaps.Create(raft.SnapshotVersionMax, last, term, raft.Configuration{}, 1, nil)
				if err != nil {
					return
				}
				if _, err := k.Write(stateAt(last)); err != nil || k.Close() != nil {
					return
				}
				fmt.Fprintln(out, "snapshot", last)
				if out.Flush() != nil || disk.Log.DeleteRange(first, last-40) != nil {
					return
				}
				first = last - 39
			case 2:
				fmt.Fprintln(out, "cutting", last)
				if out.Flush() != nil || disk.Log.DeleteRange(last, last) != nil {
					return
				}
				last--
			}
			if out.Flush() != nil {
				return
			}
		}
	}()
	select {} // h ends it
}

// stateAt is what the writer's snapshot at an index holds.
func stateAt(index uint64) []byte {
	return bytes.Repeat([]byte{byte(index)}, int(index*7919%40_000))
}

// written is what a writer said.
type written struct {
	last, term, snapshot uint64
	failed               string
}

func (w *written) hear(line string) {
	word, rest, _ := strings.Cut(line, " ")
	n, _ := strconv.ParseUint(rest, 10, 64)
	switch word {
	case "stored":
		w.last = n
	case "cutting": // it may or may not be cut off
		w.last = n - 1
	case "term":
		w.term = n
	case "snapshot":
		w.snapshot = n
	case "failed:":
		w.failed = rest
	}
}

// run starts a writer, kills it after so many lines (0: never), and adds what it said.
func (w *written) run(t *testing.T, dir string, lines int, env ...string) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(append(os.Environ(), writerDir+"="+dir), env...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer watchdog.Stop()
	s := bufio.NewScanner(out)
	for n := 1; s.Scan(); n++ {
		w.hear(s.Text())
		if n == lines {
			_ = c.Process.Kill() // what is still in the pipe is heard after it
		}
	}
	if err := c.Wait(); err == nil {
		t.Fatalf("the writer ended without a failure")
	}
}

// check opens what a writer has left and looks for all that it was told is durable.
func (w *written) check(t *testing.T, dir string) {
	t.Helper()
	d, err := OpenDir(dir, "n1")
	if err != nil {
		t.Fatal(err)
	}
	h := NewHalt(func(error) {})
	snaps, err := OpenSnapshots(d, h)
	if err != nil {
		t.Fatalf("after %+v: %v", w, err)
	}
	disk, err := OpenDisk(d, h, LogOptions{Floor: snaps.Newest, segment: testSegment})
	if err != nil {
		t.Fatalf("after %+v: %v", w, err)
	}
	first, err1 := disk.Log.FirstIndex()
	last, err2 := disk.Log.LastIndex()
	term, err3 := disk.Stable.GetUint64([]byte("CurrentTerm"))
	if err := errors.Join(err1, err2, err3); err != nil || last < w.last || term < w.term {
		t.Fatalf("log from %d to %d, term %d, %v; the writer was told %+v", first, last, term, err, w)
	}
	for i := first; i <= last; i++ {
		var l raft.Log
		if err := disk.Log.GetLog(i, &l); err != nil || !strings.HasPrefix(string(l.Data), fmt.Sprintf("%d ", i)) {
			t.Fatalf("entry %d: %.20q, %v", i, l.Data, err)
		}
	}
	w.last = last
	if err := errors.Join(disk.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
}

// member makes the data directory of a member of a cluster with nothing in its log.
func member(t *testing.T, kind Kind) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "n")
	d, err := OpenDir(dir, "n1")
	if err != nil {
		t.Fatal(err)
	}
	disk, err := OpenDisk(d, NewHalt(func(error) {}), LogOptions{Kind: kind, segment: testSegment})
	if err != nil {
		t.Fatal(err)
	}
	id := d.Identity()
	id.Cluster = UUID{1, 2, 3}
	if err := errors.Join(d.Save(id), disk.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestKilledWriter: kill -9 at any moment loses nothing that was acknowledged, neither entry nor term, in many lives of one
// directory.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	eachKind(t, func(t *testing.T, kind Kind) {
		rng := rand.New(rand.NewPCG(*seed, 3))
		dir := member(t, kind)
		var w written
		for range 12 {
			w.run(t, dir, 1+rng.IntN(60))
			w.check(t, dir)
		}
		if w.last < 100 || w.term == 0 {
			t.Errorf("little was written: %+v", w)
		}
	})
}

// TestWriteFails: a file that cannot grow (as on a full disk) ends the writer with the file named, and loses nothing that
// was acknowledged.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, kind Kind) {
		dir := member(t, kind)
		var w written
		limit := 512 << 10
		if kind == WAL {
			limit = testSegment + 300 // a segment passes its size by the last batch, which will not fit
		}
		w.run(t, dir, 0, fmt.Sprintf("%s=%d", writerLimit, limit))
		if !strings.Contains(w.failed, kind.logName()) || !strings.Contains(w.failed, "file too large") || w.last == 0 {
			t.Errorf("%+v; want an error that names the log", w)
		}
		w.check(t, dir)
		w.run(t, dir, 20)
		w.check(t, dir)
	})
}
