package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// plainHash is the definition, written the plain way.
func plainHash(domain string, parts ...string) string {
	b := []byte(domain)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

func TestHashes(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	long := strings.Repeat("x", 5000)
	for _, c := range []struct{ a, b string }{{"", ""}, {"a", ""}, {"", "a"}, {"ab", "c"}, {"a", "bc"}, {"k", long}, {long[:128], long[:200]}} {
		dedup, content, task := HashDedup([]byte(c.a)), HashContent([]byte(c.a), []byte(c.b)), HashTask(c.a, []byte(c.b))
		for _, h := range []struct {
			got  [16]byte
			want string
		}{
			{dedup, plainHash(domainDedup, c.a)}, {content, plainHash(domainContent, c.a, c.b)},
			{task, plainHash(domainTask, c.a, c.b)}, {HashTaskBytes([]byte(c.a), []byte(c.b)), plainHash(domainTask, c.a, c.b)},
		} {
			if hex.EncodeToString(h.got[:]) != h.want {
				t.Errorf("hash of %.10q %.10q is %x, want %s", c.a, c.b, h.got, h.want)
			}
		}
		fmt.Fprintf(&file, "%d %d dedup %x content %x task %x\n", len(c.a), len(c.b), dedup, content, task)
	}
	golden(t, "hash.golden", file.Bytes())
	if HashTask("ab", []byte("c")) == HashTask("a", []byte("bc")) || HashContent([]byte("a"), nil) == HashContent(nil, []byte("a")) {
		t.Error("the border between the parts does not count")
	}
}

func TestHashAllocations(t *testing.T) { // not parallel: counts allocations
	queue, task := "orders", []byte("task-1")
	if n := testing.AllocsPerRun(1000, func() { HashTask(queue, task) }); n != 0 {
		t.Errorf("HashTask: %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(1000, func() { HashTaskBytes(task, task) }); n != 0 {
		t.Errorf("HashTaskBytes: %v allocations, want 0", n)
	}
	body := make([]byte, 4096)
	if n := testing.AllocsPerRun(1000, func() { HashContent(task, body) }); n > 1 {
		t.Errorf("HashContent of 4 KiB: %v allocations, want at most 1", n)
	}
}

func BenchmarkHashTask(b *testing.B) {
	task := []byte("0123456789")
	b.ReportAllocs()
	for b.Loop() {
		HashTask("orders", task)
	}
}
