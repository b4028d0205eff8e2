//go:build linux

package forgetfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	fsName   = "forgetfs"
	mostData = 1 << 20 // bytes of a read or write request
)

// mount is a disk that is served.
type mount struct {
	dir    string
	conn   string // the kernel's number of it
	served chan struct{}
}

// Available says why disks cannot be served here, nil if they can be: it takes /dev/fuse, and the right to mount.
func Available() error { return available() }

var available = sync.OnceValue(func() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("no FUSE: %w", err)
	}
	defer f.Close()
	dir, err := os.MkdirTemp("", fsName+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(dir) }()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4k"); err != nil {
		return fmt.Errorf("no right to mount: %w", err)
	}
	return unix.Unmount(dir, 0)
})

// Mount serves the disk at an empty directory. This process must not touch what is in it as long as it is served: it would wait for itself.
//
// It opens /dev/fuse itself, rather than leave that to go-fuse, so that no process that is started meanwhile inherits it: the kernel
// ends a connection when the last one who has it is gone, and a node that had it would wait for its own answer.
func (d *Disk) Mount(dir string) error {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/fuse: %w", err)
	}
	opts := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,max_read=%d", fd, os.Geteuid(), os.Getegid(), mostData)
	if err := unix.Mount(source(os.Getpid()), dir, "fuse."+fsName, unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		return errors.Join(fmt.Errorf("mount at %s: %w", dir, err), unix.Close(fd))
	}
	srv, err := fuse.NewServer(&server{fuse.NewDefaultRawFileSystem(), d}, fmt.Sprintf("/dev/fd/%d", fd), &fuse.MountOptions{
		MaxWrite: mostData, ExplicitDataCacheControl: true, DisableReadDirPlus: true, DisableXAttrs: true, DisableSplice: true,
		Logger: log.New(io.Discard, "", 0),
		PanicHandler: func(v any) fuse.Status {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.fail(fmt.Errorf("panic while serving: %v", v))
			return fuse.EIO
		},
	})
	if err != nil {
		return errors.Join(fmt.Errorf("serve %s: %w", dir, err), unix.Unmount(dir, unix.MNT_DETACH))
	}
	m := &mount{dir: dir, served: make(chan struct{})}
	go func() {
		srv.Serve()
		close(m.served)
	}()
	all, err := mounted()
	for _, o := range all {
		if o.dir == dir {
			m.conn = o.conn
		}
	}
	if m.conn == "" {
		return errors.Join(fmt.Errorf("%s is not among the mounts", dir), err, unix.Unmount(dir, unix.MNT_DETACH))
	}
	d.mu.Lock()
	d.mount = m
	d.mu.Unlock()
	return nil
}

// Unmount ends the service. Users that are not gone within ten seconds are cut off, which is an error.
func (d *Disk) Unmount() error {
	d.mu.Lock()
	m := d.mount
	d.mount = nil
	d.mu.Unlock()
	if m == nil {
		return nil
	}
	// The kernel says nothing when the last file is closed.
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(goneMost)
	defer late.Stop()
	for {
		err := unix.Unmount(m.dir, 0)
		if err == nil {
			break
		}
		select {
		case <-tick.C:
			continue
		case <-late.C:
		}
		return errors.Join(fmt.Errorf("unmount %s: %w", m.dir, err), abort(m.conn), unix.Unmount(m.dir, unix.MNT_DETACH))
	}
	select {
	case <-m.served:
		return nil
	case <-late.C:
		return errors.Join(fmt.Errorf("%s is unmounted and still served", m.dir), abort(m.conn))
	}
}

// abort ends a connection: everyone who waits for an answer gets an error.
func abort(conn string) error {
	dir := "/sys/fs/fuse/connections"
	if _, err := os.Stat(filepath.Join(dir, conn)); err != nil {
		tmp, err := os.MkdirTemp("", fsName+"-")
		if err != nil {
			return err
		}
		defer func() { _ = os.Remove(tmp) }()
		if err := unix.Mount("none", tmp, "fusectl", 0, ""); err != nil {
			return fmt.Errorf("mount fusectl: %w", err)
		}
		defer unix.Unmount(tmp, unix.MNT_DETACH) //nolint:errcheck // it is in a folder of ours that nobody looks at
		dir = tmp
	}
	err := os.WriteFile(filepath.Join(dir, conn, "abort"), []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has ended
	}
	return err
}

// source is what the mounts of a process are called.
func source(pid int) string { return fmt.Sprintf("%s-%d", fsName, pid) }

type mountLine struct{ dir, conn, source string }

// mounted lists the disks that are served on this machine, or were.
func mounted() ([]mountLine, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []mountLine
	s := bufio.NewScanner(f)
	for s.Scan() {
		// 36 35 98:0 /root /mount/point options optional… - type source options: proc_pid_mountinfo(5)
		left, right, ok := strings.Cut(s.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 2 || r[0] != "fuse."+fsName {
			continue
		}
		_, conn, _ := strings.Cut(l[2], ":")
		all = append(all, mountLine{unescape.Replace(l[4]), conn, r[1]})
	}
	return all, s.Err()
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// CleanUp takes away what processes that are gone have left mounted. The disks themselves went with them.
func CleanUp() error {
	all, err := mounted()
	for _, m := range all {
		pid, e := strconv.Atoi(strings.TrimPrefix(m.source, fsName+"-"))
		if e != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		err = errors.Join(err, abort(m.conn), unix.Unmount(m.dir, unix.MNT_DETACH))
	}
	return err
}
