package transport

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/wire"
)

// die enqueues a message with keys and has it die.
func (p *peer) die(body string, keys ...[]string) {
	p.t.Helper()
	p.enqueue("doomed", wire.Message{Body: wire.Bytes(body), KeysIfUndelivered: keys})
	d := p.pull("doomed")
	var nacked wire.Nacked
	p.ask(wire.TypeNack, &wire.Nack{Token: d.Token, Permanent: true}, wire.TypeNacked, &nacked)
	if !nacked.Dead {
		p.t.Fatalf("nacked: %+v", nacked)
	}
}

func keysOf(es []wire.KVEntry) string {
	var b strings.Builder
	for _, e := range es {
		fmt.Fprintf(&b, "%s=%s ", strings.Join(e.Key, "/"), e.Value)
	}
	return strings.TrimSpace(b.String())
}

// The KV through the doors of a real node: what is written, read, listed by pages, watched, deleted, and refused.
func TestKV(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	p.die("one", []string{"a", "1"}, []string{"a", "2"}, []string{"b"})
	p.die("two", []string{"a", "10"})

	var is wire.KVIs
	p.ask(wire.TypeKVGet, &wire.KVGet{Key: []string{"a", "2"}}, wire.TypeKVIs, &is)
	if e := is.Entry; string(e.Value) != "one" || e.ValueBytes != 3 || e.Position != 2 || !wire.IsID(e.MessageID) ||
		e.EndsAt-e.ChangedAt != 30*24*3600*1000 || is.At.Index == 0 {
		t.Errorf("got %+v at %+v", e, is.At)
	}
	for _, c := range []struct {
		name string
		req  wire.KVList
		want string
		next []string
	}{
		{"all", wire.KVList{Values: true}, "a/1=one a/10=two a/2=one b=one", nil},
		{"under a prefix, without values", wire.KVList{Prefix: []string{"a"}}, "a/1= a/10= a/2=", nil},
		{"a page", wire.KVList{Prefix: []string{"a"}, Limit: 2}, "a/1= a/10=", []string{"a", "10"}},
		{"the next", wire.KVList{Prefix: []string{"a"}, Limit: 2, After: []string{"a", "10"}}, "a/2=", nil},
		{"under nothing", wire.KVList{Prefix: []string{"c"}}, "", nil},
		{"stale", wire.KVList{Prefix: []string{"b"}, Stale: true}, "b=", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var list wire.KVEntries
			p.ask(wire.TypeKVList, &c.req, wire.TypeKVEntries, &list)
			if got := keysOf(list.Entries); got != c.want || !slices.Equal(list.Next, c.next) || list.Position != 4 {
				t.Errorf("%s, next %q, position %d", got, list.Next, list.Position)
			}
		})
	}

	var changes wire.KVChanges
	p.ask(wire.TypeKVWatch, &wire.KVWatch{From: 2}, wire.TypeKVChanges, &changes)
	if got := keysOf(changes.Entries); got != "b=one a/10=two" || changes.Position != 4 {
		t.Errorf("changes %s up to %d", got, changes.Position)
	}
	p.ask(wire.TypeKVWatch, &wire.KVWatch{Limit: 3}, wire.TypeKVChanges, &changes)
	if len(changes.Entries) != 3 || changes.Position != 3 {
		t.Errorf("a page of changes: %s up to %d", keysOf(changes.Entries), changes.Position)
	}
	p.ask(wire.TypeKVWatch, &wire.KVWatch{Now: true}, wire.TypeKVChanges, &changes)
	if len(changes.Entries) != 0 || changes.Position != 4 {
		t.Errorf("from now: %s up to %d", keysOf(changes.Entries), changes.Position)
	}
	p.ask(wire.TypeKVWatch, &wire.KVWatch{From: 4, WaitMillis: 1}, wire.TypeKVChanges, &changes)
	if len(changes.Entries) != 0 || changes.Position != 4 {
		t.Errorf("after a wait in vain: %s up to %d", keysOf(changes.Entries), changes.Position)
	}
	// One that waits passes over what is under other prefixes.
	p.send(wire.TypeKVWatch, 900, &wire.KVWatch{Prefix: []string{"w"}, From: 4, WaitMillis: 60_000})
	other, _ := session(t, n.addr)
	other.die("elsewhere", []string{"x"})
	other.die("waited for", []string{"w", "1"})
	p.answer(900, wire.TypeKVChanges, &changes)
	if got := keysOf(changes.Entries); got != "w/1=waited for" || changes.Position != 6 {
		t.Errorf("waited: %s up to %d", got, changes.Position)
	}
	if f := p.refused(wire.TypeKVWatch, &wire.KVWatch{From: 7}, wire.CodeFailedPrecondition); f.Field != "from" {
		t.Errorf("ahead of the last change: %+v", f)
	}

	var ok wire.OK
	remove := &wire.KVDelete{Key: []string{"a", "2"}, Request: wire.Request{Number: 500, Low: 500}}
	p.ask(wire.TypeKVDelete, remove, wire.TypeOK, &ok)
	p.ask(wire.TypeKVDelete, remove, wire.TypeOK, &ok) // the same request: the same answer
	remove.Request.Number++
	if f := p.refused(wire.TypeKVDelete, remove, wire.CodeNotFound); !strings.Contains(f.Message, "no such key") {
		t.Errorf("deleted twice: %+v", f)
	}
	p.refused(wire.TypeKVGet, &wire.KVGet{Key: []string{"a", "2"}}, wire.CodeNotFound)
	p.ask(wire.TypeKVWatch, &wire.KVWatch{From: 6}, wire.TypeKVChanges, &changes)
	if len(changes.Entries) != 1 || !changes.Entries[0].Deleted || changes.Entries[0].Expired || changes.Entries[0].Position != 7 {
		t.Errorf("the deletion: %+v", changes)
	}
	for _, c := range []struct {
		typ  wire.Type
		req  any
		says string
	}{
		{wire.TypeKVGet, &wire.KVGet{}, "key: 0 strings"},
		{wire.TypeKVDelete, &wire.KVDelete{Key: make([]string, 17)}, "key: 17 strings"},
		{wire.TypeKVList, &wire.KVList{Prefix: []string{strings.Repeat("x", 257)}}, "prefix[0]: 257 bytes"},
		{wire.TypeKVWatch, &wire.KVWatch{Now: true, From: 1}, "from: 1"},
	} {
		if f := p.refused(c.typ, c.req, wire.CodeInvalidArgument); !strings.HasPrefix(f.Message, c.says) {
			t.Errorf("type %d: %s", c.typ, f.Message)
		}
	}
	_, metrics, _ := get(t, "http://"+n.addr+"/metrics")
	if !strings.Contains(metrics, `{table="kv_keys"} 5`) {
		t.Error("metrics do not count 5 keys")
	}
}

// A page that would be too long ends before its limit, and says where the next begins.
func TestKVBigValues(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	big := strings.Repeat("x", 1<<20)
	for i := range 6 {
		p.die(big, []string{fmt.Sprint(i)})
	}
	var list wire.KVEntries
	p.ask(wire.TypeKVList, &wire.KVList{Values: true}, wire.TypeKVEntries, &list)
	if len(list.Entries) != 4 || len(list.Next) != 1 || list.Next[0] != "3" {
		t.Errorf("%d entries, next %q", len(list.Entries), list.Next)
	}
	var changes wire.KVChanges
	p.ask(wire.TypeKVWatch, &wire.KVWatch{}, wire.TypeKVChanges, &changes)
	if len(changes.Entries) != 4 || changes.Position != 4 {
		t.Errorf("%d changes up to %d", len(changes.Entries), changes.Position)
	}
}
