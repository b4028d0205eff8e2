//go:build linux

package forgetfs

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// server answers the kernel's requests. Nobody else changes the disk while it is served, so that the kernel may cache what it likes;
// it writes through its cache, so that a write is here before it returns.
type server struct {
	fuse.RawFileSystem // ENOSYS to everything else: links, attributes, ioctls
	d                  *Disk
}

// listed is a line of a directory's listing.
type listed struct {
	name string
	n    *inode
}

const cached = time.Hour

func (s *server) String() string { return fsName }

// node is the inode of a request.
func (s *server) node(id uint64) *inode { return s.d.nodes[id] }

func (n *inode) attr(out *fuse.Attr) {
	*out = fuse.Attr{Ino: n.id, Mode: n.mode | syscall.S_IFREG, Nlink: 1, Size: uint64(n.now.size), Blocks: uint64(len(n.now.blocks)) * blockSize / 512, Blksize: blockSize}
	if n.isDir {
		out.Mode, out.Nlink = n.mode|syscall.S_IFDIR, 2
	}
	out.Uid, out.Gid = uint32(syscall.Geteuid()), uint32(syscall.Getegid())
	out.SetTimes(&n.modified, &n.modified, &n.modified)
}

// told fills in what the kernel is told of an inode that it asked for by name.
func (s *server) told(n *inode, out *fuse.EntryOut) {
	n.lookups++
	s.d.nodes[n.id] = n
	out.NodeId, out.Generation = n.id, 1
	n.attr(&out.Attr)
	out.SetEntryTimeout(cached)
	out.SetAttrTimeout(cached)
}

func (s *server) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return fuse.Status(s.d.read(func() syscall.Errno {
		n := s.node(h.NodeId).names[name]
		if n == nil {
			return syscall.ENOENT
		}
		s.told(n, out)
		return 0
	}))
}

func (s *server) Forget(id, times uint64) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if n := s.node(id); n != nil && n != s.d.root {
		if n.lookups -= min(times, n.lookups); n.lookups == 0 {
			delete(s.d.nodes, id)
		}
	}
}

func (s *server) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return fuse.Status(s.d.read(func() syscall.Errno {
		s.node(in.NodeId).attr(&out.Attr)
		out.SetTimeout(cached)
		return 0
	}))
}

func (s *server) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	set := func(f func(n *inode) syscall.Errno) func() syscall.Errno {
		return func() syscall.Errno {
			n := s.node(in.NodeId)
			if mode, ok := in.GetMode(); ok {
				n.mode = mode
			}
			if t, ok := in.GetMTime(); ok {
				n.modified = t
			}
			if e := f(n); e != 0 {
				return e
			}
			n.attr(&out.Attr)
			out.SetTimeout(cached)
			return 0
		}
	}
	size, ok := in.GetSize()
	if !ok {
		return fuse.Status(s.d.read(set(func(*inode) syscall.Errno { return 0 })))
	}
	return s.do(Truncate, in.NodeId, fmt.Sprintf(" to %d", size), set(func(n *inode) syscall.Errno {
		return s.d.change(n, n.now.truncate(int64(size)))
	}))
}

// do runs a call that is counted. The inode is looked up without the lock that the call takes: the kernel forgets none that it uses.
func (s *server) do(op Op, id uint64, what string, f func() syscall.Errno) fuse.Status {
	s.d.mu.Lock()
	n := s.node(id)
	s.d.mu.Unlock()
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	return fuse.Status(s.d.do(op, n, what, f))
}

// make enters a new inode.
func (s *server) make(op Op, dir uint64, name string, mode uint32, out *fuse.EntryOut) fuse.Status {
	return s.do(op, dir, "/"+name, func() syscall.Errno {
		d := s.node(dir)
		if d.names[name] != nil {
			return syscall.EEXIST
		}
		n := s.d.newInode(op == Mkdir, mode&0o7777)
		s.d.enter(d, entry{name, n})
		s.told(n, out)
		return 0
	})
}

func (s *server) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return s.make(Mkdir, in.NodeId, name, in.Mode, out)
}

func (s *server) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return s.make(Create, in.NodeId, name, in.Mode, &out.EntryOut)
}

func (s *server) remove(h *fuse.InHeader, name string, dir bool) fuse.Status {
	return s.do(Remove, h.NodeId, "/"+name, func() syscall.Errno {
		d := s.node(h.NodeId)
		n := d.names[name]
		switch {
		case n == nil:
			return syscall.ENOENT
		case dir && !n.isDir:
			return syscall.ENOTDIR
		case !dir && n.isDir:
			return syscall.EISDIR
		case len(n.names) > 0:
			return syscall.ENOTEMPTY
		}
		s.d.enter(d, entry{name, nil})
		return 0
	})
}

func (s *server) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return s.remove(h, name, false)
}

func (s *server) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return s.remove(h, name, true)
}

// Rename works within a directory. Between two of them there would be the question which one's sync makes it durable.
func (s *server) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	return s.do(Rename, in.NodeId, "/"+from+" to "+to, func() syscall.Errno {
		d := s.node(in.NodeId)
		n, there := d.names[from], d.names[to]
		switch {
		case in.Newdir != in.NodeId:
			return syscall.EXDEV
		case in.Flags != 0:
			return syscall.EINVAL
		case n == nil:
			return syscall.ENOENT
		case there != nil && there.isDir != n.isDir:
			return map[bool]syscall.Errno{true: syscall.EISDIR, false: syscall.ENOTDIR}[there.isDir]
		case there != nil && len(there.names) > 0:
			return syscall.ENOTEMPTY
		}
		s.d.enter(d, entry{from, nil}, entry{to, n})
		return 0
	})
}

func (s *server) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return fuse.Status(s.d.read(func() syscall.Errno {
		if in.Flags&syscall.O_TRUNC != 0 { // the kernel truncates by itself; it would have to be counted here
			return syscall.EINVAL
		}
		return 0
	}))
}

func (s *server) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	n := 0
	e := s.d.read(func() syscall.Errno {
		n = s.node(in.NodeId).now.read(buf[:min(len(buf), int(in.Size))], int64(in.Offset))
		return 0
	})
	return fuse.ReadResultData(buf[:n]), fuse.Status(e)
}

// Write also comes from the kernel where a file is mapped and written to through memory: when it writes those pages back.
func (s *server) Write(_ <-chan struct{}, in *fuse.WriteIn, p []byte) (uint32, fuse.Status) {
	st := s.do(Write, in.NodeId, fmt.Sprintf(" at %d+%d", in.Offset, len(p)), func() syscall.Errno {
		n := s.node(in.NodeId)
		return s.d.change(n, n.now.write(p, int64(in.Offset)))
	})
	if st != fuse.OK {
		return 0, st
	}
	return uint32(len(p)), fuse.OK
}

func (s *server) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	return s.do(Allocate, in.NodeId, fmt.Sprintf(" to %d", in.Offset+in.Length), func() syscall.Errno {
		switch in.Mode {
		case 0:
			return s.d.change(s.node(in.NodeId), change{size: int64(in.Offset + in.Length)})
		case unix.FALLOC_FL_KEEP_SIZE: // space is not kept for anybody here
			return 0
		case unix.FALLOC_FL_ZERO_RANGE: // to the end of the file, or beyond
			n, end := s.node(in.NodeId), int64(in.Offset+in.Length)
			if end < n.now.size {
				break
			}
			if e := s.d.change(n, n.now.truncate(int64(in.Offset))); e != 0 {
				return e
			}
			return s.d.change(n, change{size: end})
		}
		return syscall.EOPNOTSUPP
	})
}

func (s *server) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return s.sync(SyncFile, in.NodeId)
}

func (s *server) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return s.sync(SyncDir, in.NodeId)
}

func (s *server) sync(op Op, id uint64) fuse.Status {
	return s.do(op, id, "", func() syscall.Errno {
		s.d.syncInode(s.node(id))
		return 0
	})
}

func (s *server) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }
func (s *server) Release(<-chan struct{}, *fuse.ReleaseIn)         {}

func (s *server) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return fuse.Status(s.d.read(func() syscall.Errno {
		s.d.seq++
		out.Fh = s.d.seq
		return 0
	}))
}

// ReadDir lists what was there when the listing began, so that places in it stay what they are.
func (s *server) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fuse.Status(s.d.read(func() syscall.Errno {
		if in.Offset == 0 {
			d := s.node(in.NodeId)
			l := []listed{{".", d}, {"..", d}}
			for _, name := range slices.Sorted(maps.Keys(d.names)) {
				l = append(l, listed{name, d.names[name]})
			}
			s.d.listings[in.Fh] = l
		}
		l := s.d.listings[in.Fh]
		for i := int(in.Offset); i < len(l); i++ {
			mode := uint32(syscall.S_IFREG)
			if l[i].n.isDir {
				mode = syscall.S_IFDIR
			}
			if !out.AddDirEntry(fuse.DirEntry{Name: l[i].name, Ino: l[i].n.id, Mode: mode, Off: uint64(i + 1)}) {
				break
			}
		}
		return 0
	}))
}

func (s *server) ReleaseDir(in *fuse.ReleaseIn) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	delete(s.d.listings, in.Fh)
}

func (s *server) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	return fuse.Status(s.d.read(func() syscall.Errno {
		s.d.count()
		free := uint64(max(0, s.d.opt.Capacity-s.d.used)) / blockSize
		*out = fuse.StatfsOut{Blocks: uint64(s.d.opt.Capacity) / blockSize, Bfree: free, Bavail: free, Bsize: blockSize, Frsize: blockSize, Files: 1 << 20, Ffree: 1 << 20, NameLen: 255}
		return 0
	}))
}
