package store

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

var (
	seed  = flag.Uint64("seed", 1, "seed of the damage tests")
	flips = flag.Int("flips", 150, "bits flipped per file by the damage tests")
)

// contents is everything that raft and the node would read.
func contents(t testing.TB, dir string) string {
	t.Helper()
	d, disk, snaps, err := openAll(t.(*testing.T), dir)
	if err != nil {
		t.Fatalf("open whole directory: %v", err)
	}
	defer d.Close()
	defer disk.Close()
	return dump(t, d, disk, snaps)
}

func dump(t testing.TB, d *Dir, disk *Disk, snaps *Snapshots) string {
	t.Helper()
	var b strings.Builder
	id := d.Identity()
	fmt.Fprintln(&b, id.UUID, id.Label, id.Cluster, id.HasData)
	for _, k := range []string{"CurrentTerm", "LastVoteTerm", "LastVoteCand"} {
		v, err := disk.Stable.Get([]byte(k))
		fmt.Fprintf(&b, "%s=%x %v\n", k, v, err)
	}
	last, _ := disk.Log.LastIndex()
	newest, _ := snaps.Newest()
	for i := newest + 1; i <= last; i++ {
		var l raft.Log
		if err := disk.Log.GetLog(i, &l); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d %d %d %x\n", l.Index, l.Term, l.Type, l.Data)
	}
	list, err := snaps.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list[:min(1, len(list))] {
		_, rc, err := snaps.Open(m.ID)
		if err != nil {
			t.Fatal(err)
		}
		var all bytes.Buffer
		if _, err := all.ReadFrom(rc); err != nil {
			t.Fatal(err)
		}
		rc.Close()
		fmt.Fprintln(&b, m.Index, m.Term, m.Configuration, m.ConfigurationIndex, all.String())
	}
	return b.String()
}

// TestFlippedBits: one flipped bit anywhere in a stopped node's files is noticed and named, or was in a byte that is never
// read, and then everything that is read is as it was. (C7, G16)
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d, %d flips a file", *seed, *flips)
	eachKind(t, testFlippedBits)
}

func testFlippedBits(t *testing.T, kind Kind) {
	whole := filepath.Join(t.TempDir(), "whole")
	fill(t, whole, kind, true)
	var want string
	{
		c := filepath.Join(t.TempDir(), "c")
		copyTree(t, whole, c)
		want = contents(t, c)
	}
	var files []string
	err := filepath.Walk(whole, func(p string, i os.FileInfo, err error) error {
		if err == nil && i.Mode().IsRegular() && i.Size() > 0 {
			rel, _ := filepath.Rel(whole, p)
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for fi, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(*seed, uint64(fi)))
			original, err := os.ReadFile(filepath.Join(whole, file))
			if err != nil {
				t.Fatal(err)
			}
			written := len(bytes.TrimRight(original, "\x00"))
			dir := t.TempDir()
			noticed, unread := 0, 0
			for i := range *flips {
				c := filepath.Join(dir, fmt.Sprint(i))
				copyTree(t, whole, c)
				at := rng.IntN(len(original))
				if i%2 == 1 {
					at = rng.IntN(min(written, 128<<10)) // metadata and the first pages, not what is only reserved
				}
				if i < 60 && file == LogFile {
					at = rng.IntN(5)*os.Getpagesize() + rng.IntN(160) // page and element headers
				}
				damaged := bytes.Clone(original)
				bit := byte(1) << rng.IntN(8)
				damaged[at] ^= bit
				if err := os.WriteFile(filepath.Join(c, file), damaged, 0o600); err != nil {
					t.Fatal(err)
				}
				where := fmt.Sprintf("byte %d bit %#x", at, bit)
				d, disk, snaps, err := openAll(t, c)
				if err != nil {
					noticed++
					if !strings.Contains(err.Error(), c) {
						t.Errorf("%s: error does not name a file: %v", where, err)
					}
				} else {
					unread++
					if got := dump(t, d, disk, snaps); got != want {
						t.Errorf("%s: not noticed, and what is read differs", where)
					}
					_ = disk.Close()
					_ = d.Close()
				}
				_ = os.RemoveAll(c)
			}
			t.Logf("%d noticed, %d in bytes that are never read", noticed, unread)
			if noticed == 0 {
				t.Errorf("no flip was noticed")
			}
		})
	}
}

// TestMistreatedDirectory: what happens to files beside flipped bits. (C7, C8, G16)
func TestMistreatedDirectory(t *testing.T) {
	t.Parallel()
	eachKind(t, testMistreatedDirectory)
}

func testMistreatedDirectory(t *testing.T, kind Kind) {
	page := int64(os.Getpagesize())
	log := kind.logName()
	put := func(dir, file string, b []byte) error { return os.WriteFile(filepath.Join(dir, file), b, 0o600) }
	snapOf := func(dir string) string {
		m, err := filepath.Glob(filepath.Join(dir, snapshotDir, "*"))
		if err != nil || len(m) != 1 {
			t.Fatalf("snapshots %v, %v", m, err)
		}
		return m[0]
	}
	cases := []mistreatment{
		{"log gone", func(_ *testing.T, d string) error { return kind.remove(d) }, "missing", log, true},
		{"log made anew", func(t *testing.T, d string) error {
			id, err := readIdentity(filepath.Join(d, identityFile))
			if err != nil {
				return err
			}
			if err := kind.remove(d); err != nil {
				return err
			}
			e, err := kind.create(kind.path(d), id.UUID, testSegment)
			if err != nil {
				return err
			}
			return e.Close()
		}, map[Kind]string{Bolt: "is missing", WAL: "newest are gone"}[kind], log, true},
		{"log of another node", func(t *testing.T, d string) error {
			o := filepath.Join(t.TempDir(), "o")
			fill(t, o, kind, true)
			return errors.Join(kind.remove(d), os.Rename(kind.path(o), kind.path(d)))
		}, "another node", log, true},
		{"log put back from an older copy", func(t *testing.T, d string) error {
			putBack := keep(t, d, kind)
			marks, err := os.ReadFile(filepath.Join(d, TailFile))
			if err != nil {
				return err
			}
			for range 2 {
				contents(t, d)
			}
			return errors.Join(putBack(), put(d, TailFile, marks))
		}, "older copy", log, true},
		{"log put back from an older copy, its marks not", func(t *testing.T, d string) error {
			putBack := keep(t, d, kind)
			contents(t, d)
			return putBack()
		}, "newer ones are gone", log, true},
		{"log put back within one start", func(t *testing.T, d string) error {
			x, disk, _, err := openAll(t, d)
			if err != nil {
				return err
			}
			if err := disk.Close(); err != nil {
				return err
			}
			putBack := keep(t, d, kind)
			disk = reopen(t, x, NewHalt(func(error) {}))
			return errors.Join(disk.Log.StoreLog(entry(401, 3, "acknowledged")), disk.Close(), x.Close(), putBack())
		}, "entries end at 400, but entry 401 was stored", log, true},
		{"a vote put back within one start", func(t *testing.T, d string) error {
			x, disk, _, err := openAll(t, d)
			if err != nil {
				return err
			}
			if err := disk.Close(); err != nil {
				return err
			}
			putBack := keep(t, d, kind)
			disk = reopen(t, x, NewHalt(func(error) {}))
			return errors.Join(disk.Stable.SetUint64([]byte("CurrentTerm"), 9), disk.Close(), x.Close(), putBack())
		}, "newer ones are gone", log, true},
		{"identity put back from an older copy", func(t *testing.T, d string) error {
			old, err := os.ReadFile(filepath.Join(d, identityFile))
			if err != nil {
				return err
			}
			for range 3 {
				contents(t, d)
			}
			return put(d, identityFile, old)
		}, "older copy", identityFile, true},
		{"identity put back from before the cluster", func(t *testing.T, d string) error {
			return putBackIdentity(d, func(id *Identity) { id.Cluster, id.Incarnation = UUID{}, 1 })
		}, "older copy", identityFile, true},
		{"identity put back from before the log", func(t *testing.T, d string) error {
			return putBackIdentity(d, func(id *Identity) { id.Cluster, id.Incarnation, id.HasData = UUID{}, 0, false })
		}, "older copy", identityFile, true},
		{"identity put back from before the cluster, the log compacted and its marks behind", func(t *testing.T, d string) error {
			tl, err := openTail(filepath.Join(d, TailFile), false)
			if err != nil {
				return err
			}
			return errors.Join(tl.setLast(0, false), tl.close(), putBackIdentity(d, func(id *Identity) { id.Cluster = UUID{} }))
		}, "older copy", identityFile, true},
		{"identity gone", func(_ *testing.T, d string) error { return os.Remove(filepath.Join(d, identityFile)) }, "missing beside", identityFile, true},
		{"identity emptied", func(_ *testing.T, d string) error { return put(d, identityFile, nil) }, "not JSON", identityFile, true},
		{"identity of a newer version", func(_ *testing.T, d string) error {
			b, err := os.ReadFile(filepath.Join(d, identityFile))
			if err != nil {
				return err
			}
			return put(d, identityFile, bytes.Replace(b, fmt.Appendf(nil, `"format": %d`, map[Kind]int{Bolt: Format, WAL: formatWAL}[kind]), []byte(`"format": 3`), 1))
		}, "newer quorate", identityFile, false},
		{"end mark gone", func(_ *testing.T, d string) error { return os.Remove(filepath.Join(d, TailFile)) }, "missing", TailFile, true},
		{"end mark cut", func(_ *testing.T, d string) error { return os.Truncate(filepath.Join(d, TailFile), 7) }, "not an end mark", TailFile, true},
		{"snapshot gone, log behind it compacted", func(_ *testing.T, d string) error { return os.RemoveAll(snapOf(d)) }, "those between are gone", log, true},
		{"snapshot state cut", func(_ *testing.T, d string) error {
			return os.Truncate(filepath.Join(snapOf(d), snapshotState), 5000)
		}, "cut short", snapshotState, true},
		{"snapshot state emptied", func(_ *testing.T, d string) error {
			return os.Truncate(filepath.Join(snapOf(d), snapshotState), 0)
		}, "cut short", snapshotState, true},
		{"snapshot state gone", func(_ *testing.T, d string) error { return os.Remove(filepath.Join(snapOf(d), snapshotState)) }, "cannot be read", snapshotState, true},
		{"snapshot metadata gone", func(_ *testing.T, d string) error { return os.Remove(filepath.Join(snapOf(d), snapshotMeta)) }, "cannot be read", snapshotMeta, true},
		{"snapshot metadata says another index", func(_ *testing.T, d string) error {
			p := filepath.Join(snapOf(d), snapshotMeta)
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(p, bytes.Replace(b, []byte(`"Index":100`), []byte(`"Index":108`), 1), 0o600)
		}, "disagrees", snapshotMeta, true},
	}
	if kind == Bolt {
		cases = append(cases, mistreatedBolt(page, put)...)
	} else {
		cases = append(cases, mistreatedWAL(put)...)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "n")
			fill(t, dir, kind, true)
			if err := c.harm(t, dir); err != nil {
				t.Fatal(err)
			}
			segments, err := filepath.Glob(filepath.Join(dir, WALDir, "*.wal"))
			if err != nil {
				t.Fatal(err)
			}
			_, _, _, err = openAll(t, dir)
			if err == nil {
				t.Fatal("opened")
			}
			for _, s := range segments { // perhaps there is a way to what is in them
				if _, err := os.Lstat(s); err != nil {
					t.Errorf("of what is refused: %v", err)
				}
			}
			var d *DamageError
			if errors.As(err, &d) != c.remedy || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) {
				t.Errorf("error %v\nwant %q in %s", err, c.want, c.file)
			}
			if strings.Contains(err.Error(), "goroutine ") {
				t.Errorf("the error carries a stack trace")
			}
		})
	}
}

// putBackIdentity replaces the identity by the one that it was, with its checksum.
func putBackIdentity(dir string, older func(*Identity)) error {
	id, err := readIdentity(filepath.Join(dir, identityFile))
	if err != nil {
		return err
	}
	older(&id)
	return (&Dir{path: dir}).Save(id)
}

// A power cut leaves the end mark behind the log. A start raises it: what it has found, and others were told of, is missed from then on, though
// nothing has been stored since.
func TestStartRaisesTheEndMark(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, kind Kind) {
		dir := filepath.Join(t.TempDir(), "n")
		fill(t, dir, kind, true)
		tl, err := openTail(filepath.Join(dir, TailFile), false)
		if err != nil {
			t.Fatal(err)
		}
		last, _ := tl.marks()
		if err := errors.Join(tl.setLast(last-50, true), tl.close()); err != nil {
			t.Fatal(err)
		}
		contents(t, dir)
		if tl, err = openTail(filepath.Join(dir, TailFile), false); err != nil {
			t.Fatal(err)
		}
		if got, _ := tl.marks(); got != last {
			t.Errorf("the end mark is %d, the log ends at %d", got, last)
		}
		if err := tl.close(); err != nil {
			t.Fatal(err)
		}
		if kind != WAL { // bbolt's file is judged by its pages
			return
		}
		id, err := readIdentity(filepath.Join(dir, identityFile))
		if err != nil {
			t.Fatal(err)
		}
		m, found, err := checkWAL(filepath.Join(dir, WALDir), id.UUID, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		newest := len(found) - 1
		offsets := found[newest].offsets
		if err := flipBit(filepath.Join(dir, WALDir, m.Segments[newest].file()), int64(offsets[len(offsets)-1])); err != nil {
			t.Fatal(err)
		}
		var d *DamageError
		if _, _, _, err := openAll(t, dir); !errors.As(err, &d) || d.Index == 0 || d.Index > last {
			t.Errorf("a damaged frame: %v, want damage at or before entry %d", err, last)
		}
	})
}

// mistreatment is a harm and how a start must speak of it.
type mistreatment struct {
	name   string
	harm   func(t *testing.T, dir string) error
	want   string // in the error, beside the remedy
	file   string
	remedy bool
}

func mistreatedBolt(page int64, put func(dir, file string, b []byte) error) []mistreatment {
	return []mistreatment{
		{"log emptied", func(_ *testing.T, d string) error { return os.Truncate(filepath.Join(d, LogFile), 0) }, "cut short", LogFile, true},
		{"log cut in a page", func(_ *testing.T, d string) error {
			return os.Truncate(filepath.Join(d, LogFile), 9*page+100)
		}, "cut short", LogFile, true},
		{"both meta pages zeroed", func(_ *testing.T, d string) error {
			f, err := os.OpenFile(filepath.Join(d, LogFile), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt(make([]byte, 2*page), 0)
			return err
		}, "no bbolt magic", LogFile, true},
		{"newer meta page zeroed", func(_ *testing.T, d string) error {
			f, err := os.OpenFile(filepath.Join(d, LogFile), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			b := make([]byte, 2*page)
			if _, err := f.ReadAt(b, 0); err != nil {
				return err
			}
			newer := int64(0)
			if bytes.Compare(reverse(b[page+16+48:page+16+56]), reverse(b[16+48:16+56])) > 0 {
				newer = 1
			}
			_, err = f.WriteAt(make([]byte, page), newer*page)
			return err
		}, "no bbolt magic", LogFile, true},
		{"log of garbage", func(_ *testing.T, d string) error {
			return put(d, LogFile, bytes.Repeat([]byte("garbage!"), 8192))
		}, "no bbolt magic", LogFile, true},
	}
}

func reverse(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[len(b)-1-i] = b[i]
	}
	return out
}

// TestOlderSnapshotIsNotFallenBackTo: with two snapshots, damage to the newer stops the node.
func TestOlderSnapshotIsNotFallenBackTo(t *testing.T) {
	t.Parallel()
	eachKind(t, testOlderSnapshot)
}

func testOlderSnapshot(t *testing.T, kind Kind) {
	dir := filepath.Join(t.TempDir(), "n")
	fill(t, dir, kind, true)
	d, disk, snaps, err := openAll(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	id := writeSnapshot(t, snaps, 200, 3, strings.Repeat("newer ", 5000))
	if index, term := snaps.Newest(); index != 200 || term != 3 {
		t.Errorf("newest ends at %d of term %d, want 200 of 3", index, term)
	}
	if err := errors.Join(disk.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(dir, snapshotDir, id, snapshotState)
	b, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0x10
	if err := os.WriteFile(p, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err = openAll(t, dir); err == nil || !strings.Contains(err.Error(), p) {
		t.Errorf("error %v, want one that names %s", err, p)
	}
}

// TestCutOffStart: whatever a crash leaves of a start is started again.
func TestCutOffStart(t *testing.T) {
	t.Parallel()
	eachKind(t, testCutOffStart)
}

func testCutOffStart(t *testing.T, kind Kind) {
	dir := filepath.Join(t.TempDir(), "n")
	fill(t, dir, kind, false)
	for name, crash := range map[string]func() error{
		"after the mark, before the identity": func() error {
			d, err := OpenDir(dir, "n1")
			if err != nil {
				return err
			}
			id := d.Identity()
			disk := reopen(t, d, NewHalt(func(error) {}))
			return errors.Join(disk.Stable.Set([]byte(markKey), mark(id.UUID, id.Incarnation+1)), disk.Close(), d.Close())
		},
		"an unfinished snapshot": func() error { return os.MkdirAll(filepath.Join(dir, snapshotDir, "3-9-9.tmp"), 0o700) },
		"an unfinished identity": func() error {
			return os.WriteFile(filepath.Join(dir, identityFile+".tmp"), []byte("{"), 0o600)
		},
	} {
		if err := crash(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		contents(t, dir)
		contents(t, dir)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, snapshotDir, "*.tmp")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
