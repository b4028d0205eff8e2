//go:build linux

package netswitch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	tunPath = "/dev/net/tun"
	tunName = "t0"
	netBits = 24
)

// network is TEST-NET-1 of RFC 5737: no network has it.
var network = addr{192, 0, 2, 0}

// place is a network namespace with one address on the switch.
type place struct {
	name  string
	index int
	addr  addr
	ns    *os.File // the namespace
	tun   *os.File
	post  *post
}

func (p *place) host() string { return net.IP(p.addr[:]).String() }

// newPlace makes a place; own: in this process's namespace, otherwise in a new one.
func newPlace(name string, index int, own bool) (*place, error) {
	p := &place{name: name, index: index, addr: network, post: newPost()}
	p.addr[3] = byte(index + 1)
	furnish := func() (err error) {
		if p.ns, err = thisNS(); err != nil {
			return err
		}
		if err := up("lo"); err != nil {
			return err
		}
		if p.tun, err = openTUN(); err != nil {
			return err
		}
		if err := setAddr(tunName, p.addr); err != nil {
			return err
		}
		return up(tunName)
	}
	var err error
	if own {
		err = furnish() // all threads are in it
	} else {
		err = onThread(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, furnish)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the place of %s: %w", name, err), p.close())
	}
	return p, nil
}

func (p *place) close() (err error) {
	for _, f := range []*os.File{p.tun, p.ns} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// within calls f on a thread that is in the place's namespace. Sockets that f itself makes stay there.
func (p *place) within(f func() error) error {
	return onThread(func() error { return unix.Setns(int(p.ns.Fd()), unix.CLONE_NEWNET) }, f)
}

// onThread calls enter and then f on a thread of their own, and takes the thread back to where it was. One that cannot come back ends here:
// it must not serve others.
func onThread(enter, f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := thisNS()
		if err != nil {
			runtime.UnlockOSThread()
			result <- err
			return
		}
		defer home.Close()
		err = enter()
		if err == nil {
			err = f()
		}
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			err = errors.Join(err, fmt.Errorf("come back from a network namespace: %w", back))
		} else {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

// thisNS is the network namespace of the calling thread.
func thisNS() (*os.File, error) {
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("open this thread's network namespace: %w", err)
	}
	return f, nil
}

// openTUN makes a TUN device in the calling thread's namespace. It is gone when the file is closed.
func openTUN() (*os.File, error) {
	fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", tunPath, err)
	}
	r, err := unix.NewIfreq(tunName)
	if err == nil {
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a TUN device: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), tunPath), nil // only now: the poller takes no device that is not there yet
}

// setAddr gives a device its address, with all of the network beside it.
func setAddr(device string, a addr) error {
	mask := net.CIDRMask(netBits, 8*len(a))
	return withSocket(func(fd int) error {
		for _, set := range []struct {
			what    string
			request uint
			value   []byte
		}{{"address", unix.SIOCSIFADDR, a[:]}, {"netmask", unix.SIOCSIFNETMASK, mask}} {
			r, err := unix.NewIfreq(device)
			if err == nil {
				err = r.SetInet4Addr(set.value)
			}
			if err == nil {
				err = unix.IoctlIfreq(fd, set.request, r)
			}
			if err != nil {
				return fmt.Errorf("set the %s of %s: %w", set.what, device, err)
			}
		}
		return nil
	})
}

// up switches a device of the calling thread's namespace on.
func up(device string) error {
	return withSocket(func(fd int) error {
		r, err := unix.NewIfreq(device)
		if err == nil {
			err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r)
		}
		if err == nil {
			r.SetUint16(r.Uint16() | unix.IFF_UP)
			err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
		}
		if err != nil {
			return fmt.Errorf("switch %s on: %w", device, err)
		}
		return nil
	})
}

// withSocket calls f with a socket of the calling thread's namespace, on which requests about its devices are made.
func withSocket(f func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	return errors.Join(f(fd), unix.Close(fd))
}
