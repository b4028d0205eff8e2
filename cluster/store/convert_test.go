package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	converterDir  = "QUORATE_TEST_CONVERTER"        // data directory that a process converts
	converterTo   = "QUORATE_TEST_CONVERTER_TO"     // to what
	converterStep = "QUORATE_TEST_CONVERTER_KILLED" // before which step it kills itself, from 0
)

func converter(dir string) int {
	at, err := strconv.Atoi(os.Getenv(converterStep))
	if err != nil {
		return 3
	}
	n := 0
	_, err = Convert(dir, Kind(os.Getenv(converterTo)), func(what string) {
		if n == at {
			fmt.Println(what)
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
		n++
	})
	if err != nil {
		fmt.Println(err)
		return 4
	}
	return 0
}

func (k Kind) other() Kind {
	if k == Bolt {
		return WAL
	}
	return Bolt
}

// only fails the test unless a directory has a log of this kind alone, and nothing half-made.
func only(t *testing.T, dir string, k Kind) {
	t.Helper()
	if in, err := Inspect(dir); err != nil || in.Identity.Kind() != k {
		t.Errorf("the identity says %q, %v; want %q", in.Identity.Kind(), err, k)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "raft.*"))
	if err != nil || len(logs) != 2 || logs[0] != k.path(dir) && logs[1] != k.path(dir) {
		t.Errorf("%v, %v; want %s and %s", logs, err, k.path(dir), TailFile)
	}
}

// TestConvert: what is read of a converted log is what was read before, there and back.
func TestConvert(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, from Kind) {
		for _, c := range []struct {
			name        string
			make        func(t *testing.T, dir string)
			first, last uint64
		}{
			{"with a snapshot", func(t *testing.T, dir string) { fill(t, dir, from, true) }, 51, 400},
			{"without", func(t *testing.T, dir string) { fill(t, dir, from, false) }, 1, 400},
			{"empty", func(t *testing.T, dir string) {
				if err := os.Rename(member(t, from), dir); err != nil {
					t.Fatal(err)
				}
			}, 0, 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "n")
				c.make(t, dir)
				want := contents(t, dir)
				kind := from
				for range 3 {
					kind = kind.other()
					got, err := Convert(dir, kind, nil)
					if err != nil {
						t.Fatal(err)
					}
					if got.From != kind.other() || got.To != kind || got.First != c.first || got.Last != c.last || got.Removed != kind.other().path(dir) {
						t.Errorf("converted %+v", got)
					}
					only(t, dir, kind)
					if got := contents(t, dir); got != want {
						t.Errorf("to %s: what is read has changed", kind)
					}
					again, err := Convert(dir, kind, nil)
					if err != nil || again.From != again.To || again.Removed != "" {
						t.Errorf("again: %+v, %v", again, err)
					}
				}
			})
		}
	})
}

// TestConvertGap: entries below a gap that a snapshot covers are left behind.
func TestConvertGap(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "n")
	fill(t, dir, Bolt, false)
	d, disk, snaps, err := openAll(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	writeSnapshot(t, snaps, 500, 3, "state")
	if err := errors.Join(disk.Log.StoreLog(entry(501, 3, "behind the snapshot")), disk.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	want := contents(t, dir)
	c, err := Convert(dir, WAL, nil)
	if err != nil || c.First != 501 || c.Last != 501 {
		t.Fatalf("%+v, %v", c, err)
	}
	if got := contents(t, dir); got != want {
		t.Error("what is read has changed")
	}
}

// TestConvertKilled: kill -9 before any step leaves a node that starts with all that it had, and a conversion that can be
// made again.
func TestConvertKilled(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, from Kind) {
		whole := filepath.Join(t.TempDir(), "whole")
		fill(t, whole, from, true)
		copied := filepath.Join(t.TempDir(), "c")
		copyTree(t, whole, copied)
		want := contents(t, copied)
		steps := 0
		if _, err := Convert(copied, from.other(), func(string) { steps++ }); err != nil || steps < 5 {
			t.Fatalf("%d steps, %v", steps, err)
		}
		for step := range steps {
			t.Run(fmt.Sprint(step), func(t *testing.T) {
				t.Parallel()
				for _, then := range []string{"start", "convert"} {
					dir := filepath.Join(t.TempDir(), "n")
					copyTree(t, whole, dir)
					p := exec.Command(os.Args[0])
					p.Env = append(os.Environ(), converterDir+"="+dir, converterTo+"="+string(from.other()), converterStep+"="+strconv.Itoa(step))
					out, err := p.Output()
					if p.ProcessState.Success() || !strings.Contains(fmt.Sprint(err), "killed") {
						t.Fatalf("the process was not killed: %v, %s", err, out)
					}
					kind := from
					if strings.Contains(string(out), "remove the old") {
						kind = from.other()
					}
					if then == "start" {
						if got := contents(t, dir); got != want {
							t.Errorf("killed before %q: what is read has changed", out)
						}
						only(t, dir, kind)
					}
					if _, err := Convert(dir, from.other(), nil); err != nil {
						t.Errorf("killed before %q, converted again: %v", out, err)
					}
					only(t, dir, from.other())
					if got := contents(t, dir); got != want {
						t.Errorf("killed before %q, converted again: what is read has changed", out)
					}
				}
			})
		}
	})
}

// TestConvertRefuses: what cannot be converted is left as it is.
func TestConvertRefuses(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, from Kind) {
		for _, c := range []struct {
			name string
			harm func(t *testing.T, dir string)
			to   Kind
			want []string
		}{
			{"a running node", func(t *testing.T, dir string) {
				d, err := OpenDir(dir, "n1")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { d.Close() })
			}, from.other(), []string{"in use by another process", "stop node n1 first"}},
			{"no store of that name", func(*testing.T, string) {}, "rocks", []string{`"rocks"`, `"bolt"`, `"wal"`}},
			{"no name", func(*testing.T, string) {}, "", []string{`"bolt"`, `"wal"`}},
			{"no data directory", func(t *testing.T, dir string) {
				if err := os.Rename(dir, dir+"away"); err != nil {
					t.Fatal(err)
				}
			}, from.other(), []string{"no data directory", identityFile}},
			{"a damaged log", func(t *testing.T, dir string) {
				p := from.path(dir)
				if from == WAL {
					p = segmentsOf(t, dir)[1]
				}
				b, err := os.ReadFile(p)
				if err != nil {
					t.Fatal(err)
				}
				b[len(b)/2] ^= 2
				if err := os.WriteFile(p, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}, from.other(), []string{"is damaged", from.logName()}},
			{"a log that forgot", func(t *testing.T, dir string) {
				tl, err := openTail(filepath.Join(dir, TailFile), false)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(tl.setLast(401, true), tl.close()); err != nil {
					t.Fatal(err)
				}
			}, from.other(), []string{"entry 401 was stored", from.logName()}},
			{"a node of no cluster", func(t *testing.T, dir string) {
				d, err := OpenDir(dir+"new", "n1")
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(d.Close(), os.RemoveAll(dir), os.Rename(dir+"new", dir)); err != nil {
					t.Fatal(err)
				}
			}, from.other(), []string{"nothing to convert", "raft.log_store"}},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "n")
				fill(t, dir, from, true)
				c.harm(t, dir)
				_, err := Convert(dir, c.to, nil)
				for _, w := range append(c.want, "") {
					if err == nil || !strings.Contains(err.Error(), w) {
						t.Errorf("error %v, want %q", err, w)
					}
				}
				if err != nil && strings.Contains(err.Error(), ErrReleased.Error()) {
					t.Errorf("error %v speaks of a node", err)
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "*"+convertSuffix)); len(left) > 0 {
					t.Errorf("left over: %v", left)
				}
				if _, err := os.Stat(c.to.path(dir)); c.to != "" && c.to != "rocks" && err == nil {
					t.Errorf("there is a %s", c.to.path(dir))
				}
			})
		}
	})
}
