//go:build linux

package forgetfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// handDir makes this test binary a hand: a process that works on the folder it names, as its standard input says.
const handDir = "FORGETFS_TEST_HAND"

func TestMain(m *testing.M) {
	if dir := os.Getenv(handDir); dir != "" {
		hand(dir, os.Stdin, os.Stdout)
		return
	}
	if err := CleanUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// hand does what the lines say, and answers each with one: what is there, "ok", or the error's name.
//
//	write FILE OFFSET TEXT      direct FILE OFFSET LETTER (a block of it, O_DIRECT)
//	map FILE OFFSET TEXT        through a mapping; not written back yet       spread FILE: sync_file_range, all of it
//	truncate FILE SIZE          allocate FILE SIZE                            zero FILE OFFSET (to its end)
//	sync FILE                   syncdir DIRECTORY                             close FILE
//	mkdir DIRECTORY             rename FROM TO                                rm PATH
//	list                        every file with its content; NULs are dots
func hand(dir string, in io.Reader, out io.Writer) {
	files := map[string]*os.File{}
	open := func(name string) (*os.File, error) {
		if f := files[name]; f != nil {
			return f, nil
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
		files[name] = f
		return f, err
	}
	one := func(w []string) (string, error) {
		if w[0] == "list" {
			return list(dir)
		}
		path := filepath.Join(dir, w[1])
		n := int64(0)
		if len(w) > 2 {
			n, _ = strconv.ParseInt(w[2], 10, 64)
		}
		switch w[0] {
		case "mkdir":
			return "", os.Mkdir(path, 0o700)
		case "rename":
			return "", os.Rename(path, filepath.Join(dir, w[2]))
		case "rm":
			return "", os.Remove(path)
		case "syncdir":
			d, err := os.Open(path)
			if err != nil {
				return "", err
			}
			return "", errors.Join(d.Sync(), d.Close())
		case "direct":
			f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_DIRECT, 0o600)
			if err != nil {
				return "", err
			}
			b := make([]byte, 2*blockSize)
			b = b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%blockSize:][:blockSize]
			copy(b, strings.Repeat(w[3], blockSize))
			_, err = f.WriteAt(b, n)
			return "", errors.Join(err, f.Close())
		}
		f, err := open(w[1])
		if err != nil {
			return "", err
		}
		switch w[0] {
		case "write":
			_, err = f.WriteAt([]byte(w[3]), n)
		case "map":
			var m []byte
			if m, err = unix.Mmap(int(f.Fd()), 0, int(n)+len(w[3]), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
				copy(m[n:], w[3])
			}
		case "spread":
			err = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		case "truncate":
			err = f.Truncate(n)
		case "allocate":
			err = unix.Fallocate(int(f.Fd()), 0, 0, n)
		case "zero":
			st, e := f.Stat()
			if e != nil {
				return "", e
			}
			err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_ZERO_RANGE, n, st.Size()-n)
		case "sync":
			err = f.Sync()
		case "close":
			delete(files, w[1])
			err = f.Close()
		default:
			err = fmt.Errorf("%q is no command", w[0])
		}
		return "", err
	}
	for s := bufio.NewScanner(in); s.Scan(); {
		got, err := one(strings.Fields(s.Text()))
		var e syscall.Errno
		switch {
		case errors.As(err, &e):
			got = unix.ErrnoName(e)
		case err != nil:
			got = strings.ReplaceAll(err.Error(), "\n", "; ")
		case got == "":
			got = "ok"
		}
		fmt.Fprintln(out, got)
	}
}

// list is every file below dir: "a=text d/ d/b=text".
func list(dir string) (string, error) {
	var all []string
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		if e.IsDir() {
			all = append(all, name+"/")
			return nil
		}
		b, err := os.ReadFile(p)
		all = append(all, name+"="+brief(b))
		return err
	})
	sort.Strings(all)
	return strings.Join(append([]string{"there:"}, all...), " "), err
}

// brief shortens runs: "abc", "a*4096", ".*4096bc".
func brief(b []byte) string {
	var s strings.Builder
	for i := 0; i < len(b); {
		n := 1
		for i+n < len(b) && b[i+n] == b[i] {
			n++
		}
		c := string(b[i])
		if b[i] == 0 {
			c = "."
		}
		if n > 3 {
			fmt.Fprintf(&s, "%s*%d", c, n)
		} else {
			s.WriteString(strings.Repeat(c, n))
		}
		i += n
	}
	return s.String()
}

// worker is a hand at work.
type worker struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	end chan struct{}
}

func start(t *testing.T, dir string) *worker {
	t.Helper()
	w := &worker{t: t, cmd: exec.Command(os.Args[0]), end: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), handDir+"="+dir)
	w.cmd.Stderr = os.Stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err1 := w.cmd.StdinPipe()
	out, err2 := w.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	w.in, w.out = in, bufio.NewScanner(out)
	w.out.Buffer(nil, 1<<20)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	return w
}

// begin gives an order, answer waits for what is said to it; do is both.
func (w *worker) begin(order string) {
	w.t.Helper()
	if _, err := fmt.Fprintln(w.in, order); err != nil {
		w.t.Fatalf("%s: %v", order, err)
	}
}

func (w *worker) answer() string {
	watchdog := time.AfterFunc(20*time.Second, func() { w.Signal(syscall.SIGKILL) })
	defer watchdog.Stop()
	if !w.out.Scan() {
		return "gone"
	}
	return w.out.Text()
}

func (w *worker) do(order string) string {
	w.t.Helper()
	w.begin(order)
	return w.answer()
}

// Signal and Kill make it a User.
func (w *worker) Signal(s os.Signal) { _ = w.cmd.Process.Signal(s) }

func (w *worker) Kill() {
	w.Signal(syscall.SIGKILL)
	_ = w.cmd.Wait()
}

// served is a new disk at a folder, for the time of the test.
func served(t *testing.T, o Options) (*Disk, string) {
	t.Helper()
	if err := Available(); err != nil {
		t.Skipf("disks that forget cannot be served here: %v", err)
	}
	d, dir := New(o), t.TempDir()
	if err := d.Mount(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Unmount(), d.Err()); err != nil {
			t.Error(err)
		}
	})
	return d, dir
}
