package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenDir(t *testing.T) {
	t.Parallel()
	fresh := func(t *testing.T) string { return filepath.Join(t.TempDir(), "data", "n1") }
	made := func(t *testing.T) string {
		p := fresh(t)
		d, err := OpenDir(p, "n1")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	cases := []struct {
		name string
		path func(t *testing.T) string
		want string // "" opens
	}{
		{"new", fresh, ""},
		{"known", made, ""},
		{"empty and readable by others", func(t *testing.T) string {
			p := fresh(t)
			if err := os.MkdirAll(p, 0o755); err != nil {
				t.Fatal(err)
			}
			return p
		}, ""},
		{"used and readable by others", func(t *testing.T) string {
			p := made(t)
			if err := os.Chmod(p, 0o755); err != nil {
				t.Fatal(err)
			}
			return p
		}, "chmod 700"},
		{"another label", func(t *testing.T) string {
			p := fresh(t)
			d, err := OpenDir(p, "n7")
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			return p
		}, `node_id = "n7"`},
		{"in use", func(t *testing.T) string {
			p := fresh(t)
			d, err := OpenDir(p, "n1")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			return p
		}, "in use by another process"},
		{"removed", func(t *testing.T) string {
			p := fresh(t)
			d, err := OpenDir(p, "n1")
			if err != nil {
				t.Fatal(err)
			}
			id := d.Identity()
			id.Removed = true
			if err := errors.Join(d.Save(id), d.Close()); err != nil {
				t.Fatal(err)
			}
			return p
		}, "removed from its cluster"},
		{"symbolic link", func(t *testing.T) string {
			p := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(made(t), p); err != nil {
				t.Fatal(err)
			}
			return p
		}, "symbolic link"},
		{"file", func(t *testing.T) string {
			p := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return p
		}, "not a directory"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := c.path(t)
			d, err := OpenDir(p, "n1")
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if st, _ := os.Stat(p); st.Mode().Perm() != 0o700 {
				t.Errorf("directory mode %v", st.Mode())
			}
			if st, _ := os.Stat(filepath.Join(p, identityFile)); st.Mode().Perm() != 0o600 {
				t.Errorf("identity mode %v", st.Mode())
			}
			if id := d.Identity(); id.UUID.IsZero() || id.Label != "n1" || id.Format != Format {
				t.Errorf("identity %+v", id)
			}
		})
	}
}

// A process that was forked and has not yet become another program has a copy of the lock's descriptor. It keeps nobody out.
func TestClosedWhileAProcessIsStarted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "n")
	for range 2 {
		d, err := OpenDir(path, "n1")
		if err != nil {
			t.Fatal(err)
		}
		forked, err := unix.Dup(int(d.lock.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(forked)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if in, err := Inspect(path); err != nil || in.InUse {
			t.Errorf("in use: %v, %v", in.InUse, err)
		}
	}
}

func TestIdentityKeepsWhatMustNotChange(t *testing.T) {
	t.Parallel()
	d, err := OpenDir(filepath.Join(t.TempDir(), "n"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	id := d.Identity()
	id.Cluster, id.Incarnation = NewUUID(), 5
	if err := d.Save(id); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Identity){
		"uuid":        func(i *Identity) { i.UUID = NewUUID() },
		"cluster":     func(i *Identity) { i.Cluster = NewUUID() },
		"incarnation": func(i *Identity) { i.Incarnation = 4 },
	} {
		bad := id
		change(&bad)
		if err := d.Save(bad); err == nil {
			t.Errorf("%s changed", name)
		}
	}
}

func TestUUIDText(t *testing.T) {
	t.Parallel()
	u := NewUUID()
	if v, err := ParseUUID(u.String()); err != nil || v != u {
		t.Errorf("%s became %s, %v", u, v, err)
	}
	for _, bad := range []string{"", "x", strings.Repeat("0", 36), u.String() + "0", strings.Replace(u.String(), "-", "_", 1), "g" + u.String()[1:]} {
		if _, err := ParseUUID(bad); err == nil {
			t.Errorf("%q parsed", bad)
		}
	}
}
