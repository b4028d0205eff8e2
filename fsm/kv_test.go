package fsm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// keyed makes a message with keys; a key is its strings joined by slashes.
func keyed(body string, keys ...string) Message {
	m := text(body)
	for _, k := range keys {
		m.Keys = append(m.Keys, kvk(k))
	}
	return m
}

func kvk(path string) []byte { return AppendKVKey(nil, strings.Split(path, "/")...) }

// kill leases the next message of queue q and makes it die.
func (r *rig) kill() {
	r.t.Helper()
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
}

func (r *rig) kvGet(path string) string {
	var e KVEntry
	if !r.s.KVGet(kvk(path), &e) {
		return "-"
	}
	return string(e.Value)
}

// kvList are the keys under a prefix.
func (r *rig) kvList(prefix ...string) string {
	var out []string
	if partial := r.s.KVList(AppendKVKey(nil, prefix...), nil, func(e *KVEntry) bool {
		out = append(out, strings.Join(KVKeyParts(e.Key), "/")+"="+string(e.Value))
		return true
	}); partial != nil {
		r.t.Fatal("a short list is partial")
	}
	return strings.Join(out, " ")
}

func (r *rig) kvChanges(after uint64, prefix ...string) string {
	var out []string
	upTo, ok := r.s.KVChanges(AppendKVKey(nil, prefix...), after, func(e *KVEntry) bool {
		v := "=" + string(e.Value)
		if e.Deleted {
			v = "!"
		}
		if e.Expired {
			v = "~"
		}
		out = append(out, fmt.Sprint(e.Rev, ":", strings.Join(KVKeyParts(e.Key), "/"), v))
		return true
	})
	if !ok {
		return "gone"
	}
	return strings.Join(append(out, fmt.Sprint(upTo)), " ")
}

func (r *rig) kvCounts() (live, reserved int64) {
	st := r.s.KVStats()
	return st.Keys, st.Reserved
}

func TestKVKeyOrder(t *testing.T) {
	parts := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x01", "a", "a\x00", "a\x00b", "ab", "b", "é", "\x7f"}
	var lists [][]string
	for _, a := range parts {
		lists = append(lists, []string{a})
		for _, b := range parts {
			lists = append(lists, []string{a, b}, []string{a, b, a})
		}
	}
	for _, a := range lists {
		ka := AppendKVKey(nil, a...)
		if !ValidKVKey(ka) || !slices.Equal(KVKeyParts(ka), a) {
			t.Fatalf("%q is encoded as %x, which is %q", a, ka, KVKeyParts(ka))
		}
		for _, b := range lists {
			kb := AppendKVKey(nil, b...)
			if got, want := bytes.Compare(ka, kb), slices.Compare(a, b); got != want {
				t.Fatalf("%q against %q: %d, want %d", a, b, got, want)
			}
			prefix := len(a) <= len(b) && slices.Equal(a, b[:len(a)])
			if got := bytes.HasPrefix(kb, ka); got != prefix {
				t.Fatalf("%q is a prefix of %q: %t, want %t", a, b, got, prefix)
			}
		}
	}
}

func TestKVKeyValid(t *testing.T) {
	long := strings.Repeat("x", MaxKVString)
	sixteen := make([]string, 16)
	for _, c := range []struct {
		name string
		key  []byte
		ok   bool
	}{
		{"nothing", nil, false},
		{"one empty string", AppendKVKey(nil, ""), true},
		{"sixteen strings", AppendKVKey(nil, sixteen...), true},
		{"seventeen strings", AppendKVKey(nil, append(sixteen, "")...), false},
		{"256 bytes", AppendKVKey(nil, long), true},
		{"257 bytes", AppendKVKey(nil, long+"x"), false},
		{"256 zeros", AppendKVKey(nil, strings.Repeat("\x00", 256)), true},
		{"not UTF-8", AppendKVKey(nil, "\xff"), false},
		{"no end", []byte("a"), false},
		{"half an end", []byte("a\x00"), false},
		{"another escape", []byte("a\x00\x02"), false},
		{"bytes behind the end", append(AppendKVKey(nil, "a"), 'b'), false},
	} {
		t.Run(c.name, func(t *testing.T) { must(t, "valid", ValidKVKey(c.key), c.ok) })
	}
}

func FuzzKVKey(f *testing.F) {
	f.Add([]byte("a\x00\x01"))
	f.Add([]byte("a\x00\xff\x00\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if !ValidKVKey(b) {
			return
		}
		if again := AppendKVKey(nil, KVKeyParts(b)...); !bytes.Equal(again, b) {
			t.Fatalf("%x is read and encoded as %x", b, again)
		}
	})
}

// How a message with keys may end, and what its keys hold then.
func TestKVUndelivered(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(r *rig)
		keys string
	}{
		{"acked", func(r *rig) { r.ok(&Ack{Token: r.lease1()}) }, ""},
		{"acked with a result", func(r *rig) {
			r.ok(&Ack{Token: r.lease1(), HasResult: true, Result: Result{Output: []byte("x")}})
		}, ""},
		{"result pushed", func(r *rig) {
			r.ok(&PushResult{Queue: []byte("q"), TaskID: []byte("t"), Result: Result{Output: []byte("x")}})
		}, ""},
		{"cancelled", func(r *rig) { r.ok(&Cancel{Queue: []byte("q"), TaskID: []byte("t")}) }, ""},
		{"cancelled while it is out", func(r *rig) {
			tok := r.lease1()
			r.ok(&Cancel{Queue: []byte("q"), TaskID: []byte("t")})
			must(r.t, "reserved", r.s.KVStats().Reserved, 0)
			r.refused(&Nack{Token: tok, Permanent: true}, Cancelled, FieldToken)
		}, ""},
		{"another body, then dead", func(r *rig) {
			r.ok(&Reschedule{Queue: []byte("q"), TaskID: []byte("t"), HasBody: true, Body: []byte("new")})
			r.kill()
		}, "a/1=new b=new"},
		{"permanent", (*rig).kill, "a/1=body b=body"},
		{"attempts spent", func(r *rig) {
			r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 1}}})
			r.lease1()
			r.tick(1000)
		}, "a/1=body b=body"},
		{"expired", func(r *rig) { r.tick(5000) }, "a/1=body b=body"},
		{"purged", func(r *rig) { r.ok(&PurgeQueue{Name: []byte("q")}); r.tick(1) }, ""},
		{"queue deleted", func(r *rig) { r.ok(&DeleteQueue{Name: []byte("q")}); r.tick(1) }, ""},
		{"queue deleted while it is out", func(r *rig) { r.lease1(); r.ok(&DeleteQueue{Name: []byte("q")}); r.tick(1) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			m := keyed("body", "a/1", "b")
			m.TTLMillis, m.TaskID, m.Kind = 5000, []byte("t"), []byte("kind")
			r.put(m)
			live, reserved := r.kvCounts()
			must(t, "living", live, 0)
			must(t, "reserved", reserved, 2)
			c.end(r)
			must(t, "keys", r.kvList(), c.keys)
			_, reserved = r.kvCounts()
			must(t, "reserved at the end", reserved, 0)
			must(t, "hooks at the end", r.s.Memory().Hooks, 0)
			r.everywhere()
		})
	}
}

func TestKVPurgeKeepsWhatIsOut(t *testing.T) {
	r := newRig(t)
	r.put(keyed("out", "out"))
	tok := r.lease1()
	r.put(keyed("purged", "p"))
	r.ok(&PurgeQueue{Name: []byte("q")})
	r.tick(1)
	_, reserved := r.kvCounts()
	must(t, "reserved", reserved, 1)
	r.ok(&Release{Token: tok})
	r.kill()
	must(t, "keys", r.kvList(), "out=out")
	r.everywhere()
}

// A purge of many is swept a few an entry, and other purges meanwhile make the sweep go round again.
func TestKVSweepIsBounded(t *testing.T) {
	r := newRig(t)
	r.s.lim.reclaim = 3
	for i := range 10 {
		r.put(keyed("x", fmt.Sprint("k", i)))
	}
	out := r.lease(2)
	r.ok(&PurgeQueue{Name: []byte("q")})
	must(t, "hooks after the first three, two of which are out", r.s.Memory().Hooks, 9)
	must(t, "more to do", r.fx.More, true)
	at, ok := r.s.NextDue()
	must(t, "a tick is asked for at once", ok && at == r.now, true)
	r.put(keyed("y", "later"))
	r.ok(&PurgeQueue{Name: []byte("q")})
	for n := 0; r.fx.More; n++ {
		if n > 20 {
			t.Fatal("the sweep does not end")
		}
		r.tick(0)
	}
	must(t, "hooks at the end", r.s.Memory().Hooks, 2)
	r.ok(&Ack{Token: out[0]})
	r.ok(&Ack{Token: out[1]})
	must(t, "hooks when all is done", r.s.Memory().Hooks, 0)
	r.everywhere()
}

func TestKVTableFills(t *testing.T) {
	r := newRig(t)
	r.s.lim.kvKeys = 3
	enqueue := func(m Message) *Enqueue {
		return &Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: []Message{m}}
	}
	r.put(keyed("one", "a", "b"))
	o := r.refused(enqueue(keyed("two", "c", "d")), QueueFull, FieldKV)
	must(t, "limit", o.Limit, 3)
	r.put(text("without keys there is room"))
	r.put(keyed("two", "c"))
	r.refused(enqueue(keyed("three", "d")), QueueFull, FieldKV)
	r.kill() // reserved keys become living ones: as full as before
	live, reserved := r.kvCounts()
	must(t, "living", live, 2)
	must(t, "reserved", reserved, 1)
	r.refused(enqueue(keyed("three", "d")), QueueFull, FieldKV)
	// A then that meets a full KV refuses its ack, and what it lists counts together.
	r.ok(&KVDelete{Key: kvk("a")})
	tok := r.lease1()
	then := func(ms ...Message) *Ack {
		op := &Ack{Token: tok, ThenAutoCreate: true}
		for i, m := range ms {
			op.Then = append(op.Then, ThenMessage{Queue: []byte(fmt.Sprint("then", i)), Message: m})
		}
		return op
	}
	r.refused(then(keyed("x", "x"), keyed("y", "y")), QueueFull, FieldKV)
	r.ok(then(keyed("x", "x")))
	live, reserved = r.kvCounts()
	must(t, "living", live, 1)
	must(t, "reserved", reserved, 2)
	// The same key twice counts once it is written.
	r.ok(&KVDelete{Key: kvk("b")})
	r.put(keyed("again", "c"))
	r.kill()
	r.kill()
	must(t, "keys", r.kvList(), "c=again")
	live, reserved = r.kvCounts()
	must(t, "living", live, 1)
	must(t, "reserved", reserved, 1)
	r.everywhere()
}

func TestKVRefusals(t *testing.T) {
	r := newRig(t)
	seventeen := text("x")
	for i := range 17 {
		seventeen.Keys = append(seventeen.Keys, kvk(fmt.Sprint(i)))
	}
	for _, c := range []struct {
		name string
		m    Message
	}{
		{"seventeen keys", seventeen},
		{"the same twice", keyed("x", "a", "b", "a")},
		{"not an encoding", Message{Keys: [][]byte{[]byte("a")}}},
		{"empty", Message{Keys: [][]byte{{}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.refused(&Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: []Message{c.m}}, InvalidArgument, FieldKVKeys)
		})
	}
	r.refused(&KVDelete{Key: []byte("a")}, InvalidArgument, FieldKV)
	r.refused(&KVDelete{}, InvalidArgument, FieldKV)
	r.refused(&KVDelete{Key: kvk("a")}, NotFound, FieldKV)
	must(t, "reserved", r.s.KVStats().Reserved, 0)
	r.everywhere()
}

func TestKVListAndChanges(t *testing.T) {
	r := newRig(t)
	for _, p := range []string{"b", "a/2", "a/10", "ab/1", "a", "a/1/x"} {
		r.put(keyed(p, p))
		r.kill()
	}
	must(t, "all", r.kvList(), "a=a a/1/x=a/1/x a/10=a/10 a/2=a/2 ab/1=ab/1 b=b")
	must(t, "under a", r.kvList("a"), "a=a a/1/x=a/1/x a/10=a/10 a/2=a/2")
	must(t, "under a/1, which is no prefix of a/10", r.kvList("a", "1"), "a/1/x=a/1/x")
	must(t, "get", r.kvGet("a/2"), "a/2")
	must(t, "get what is none", r.kvGet("a/3"), "-")
	must(t, "changes", r.kvChanges(3), "4:ab/1=ab/1 5:a=a 6:a/1/x=a/1/x 6")
	must(t, "changes under ab", r.kvChanges(0, "ab"), "4:ab/1=ab/1 6")
	must(t, "changes from the end", r.kvChanges(6), "6")
	must(t, "changes from beyond", r.kvChanges(7), "gone")

	r.ok(&KVDelete{Key: kvk("a/2")})
	must(t, "changed", r.fx.KV, true)
	r.put(keyed("new", "a/10", "b"))
	must(t, "not changed", r.fx.KV, false)
	r.kill()
	must(t, "the last change of each", r.kvChanges(0), "4:ab/1=ab/1 5:a=a 6:a/1/x=a/1/x 7:a/2! 8:a/10=new 9:b=new 9")
	must(t, "keys", r.kvList("a"), "a=a a/1/x=a/1/x a/10=new")
	r.refused(&KVDelete{Key: kvk("a/2")}, NotFound, FieldKV)

	// After paging, what was read last is the place to go on from.
	var seen []string
	var after []byte
	for {
		n := 0
		r.s.KVList(kvk("a"), after, func(e *KVEntry) bool {
			if n++; n > 1 {
				return false
			}
			seen = append(seen, strings.Join(KVKeyParts(e.Key), "/"))
			after = append(after[:0], e.Key...)
			return true
		})
		if n < 2 {
			break
		}
	}
	must(t, "paged", strings.Join(seen, " "), "a a/1/x a/10")
	var e KVEntry
	r.s.KVGet(kvk("b"), &e)
	must(t, "end", e.EndsAt, r.now+KVTTLMillis)
	must(t, "message", e.Message.IsZero(), false)
	r.everywhere()
}

// Keys end after their time, for readers at once, and give everything back when they are reclaimed.
func TestKVEnds(t *testing.T) {
	r := newRig(t)
	r.put(keyed("old", "k", "only"))
	r.kill()
	r.tick(1000)
	r.put(keyed("new", "k"))
	r.kill()
	r.now += KVTTLMillis - 1000 - 1
	r.tick(0)
	must(t, "one ms before its end", r.kvGet("only"), "old")
	r.s.lim.reclaim = 0
	r.tick(1)
	must(t, "at its end", r.kvGet("only"), "-")
	must(t, "list", r.kvList(), "k=new")
	must(t, "not yet reclaimed", r.s.KVStats().Keys, 2)
	r.refused(&KVDelete{Key: kvk("only")}, NotFound, FieldKV)
	r.s.lim.reclaim = MaxReclaim
	r.tick(0)
	must(t, "reclaimed", r.s.KVStats().Keys, 1)
	must(t, "told", r.kvChanges(3), "4:only~ 4")
	r.tick(1000)
	must(t, "both ended", r.kvList(), "")
	r.tick(KVTombMillis)
	st := r.s.KVStats()
	must(t, "deletions", st.Deletions, 0)
	must(t, "oldest", st.Oldest, 5)
	must(t, "expired", st.Expired, 2)
	must(t, "from before", r.kvChanges(4), "gone")
	must(t, "from then on", r.kvChanges(5), "5")
	r.ok(&DeadPurge{Queue: []byte("q")})
	r.tick(1)
	r.empty()
	r.everywhere()
}

// empty checks that nothing of the KV, of hooks or of messages is left in memory, but for a first page of each table.
func (r *rig) empty() {
	r.t.Helper()
	m := r.s.Memory()
	if m.KVKeys+m.KVDeletions+m.Hooks+m.Messages+m.Dead+m.Garbage != 0 {
		r.t.Fatalf("not empty: %+v", m)
	}
	must(r.t, "arena", m.ArenaLive, 0)
}

func TestKVDeletionsFill(t *testing.T) {
	r := newRig(t)
	r.s.lim.kvTombs = 2
	for i := range 3 {
		r.put(keyed("x", fmt.Sprint(i)))
		r.kill()
	}
	for i := range 3 {
		r.ok(&KVDelete{Key: kvk(fmt.Sprint(i))})
	}
	st := r.s.KVStats()
	must(t, "deletions", st.Deletions, 2)
	must(t, "dropped", st.DeletionsDropped, 1)
	must(t, "from before the one that is not kept", r.kvChanges(3), "gone")
	must(t, "from behind it", r.kvChanges(4), "5:1! 6:2! 6")
	r.everywhere()
}

// A redriven message has spent its keys: they were written when it died, and it writes and reserves none again.
func TestKVRequeue(t *testing.T) {
	r := newRig(t)
	id := r.put(keyed("x", "k"))
	r.kill()
	r.ok(&KVDelete{Key: kvk("k")})
	r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{id}})
	must(t, "reserved", r.s.KVStats().Reserved, 0)
	r.kill()
	must(t, "keys", r.kvList(), "")
	r.everywhere()
}

// TestKVMany fills a KV and empties it again: nothing is left, and no look at it walks it all.
func TestKVMany(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	const n = 30_000
	rng := rand.New(rand.NewPCG(5, 5))
	perm := rng.Perm(n)
	for from := 0; from < n; from += 500 {
		var op Enqueue
		op.Queue, op.AutoCreate = []byte("q"), true
		for _, i := range perm[from : from+500] {
			op.Messages = append(op.Messages, keyed("value", fmt.Sprintf("%02d/%05d", i%100, i)))
		}
		for _, o := range r.apply(&op) {
			must(t, "code", o.Code, OK)
		}
		var ops []Op
		for _, tok := range r.lease(500) {
			ops = append(ops, &Nack{Token: tok, Permanent: true})
		}
		r.apply(ops...)
	}
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	must(t, "keys", r.s.KVStats().Keys, n)
	got := 0
	r.s.KVList(kvk("17"), nil, func(*KVEntry) bool { got++; return true })
	must(t, "under a prefix", got, n/100)
	partial := r.s.KVList(nil, nil, func(*KVEntry) bool { return true })
	must(t, "a list of all is partial", partial != nil, true)
	upTo, ok := r.s.KVChanges(nil, 100, func(*KVEntry) bool { return true })
	must(t, "changes go so far", ok && upTo == 100+kvExamine, true)
	for from := 0; from < n; from += 500 {
		var ops []Op
		for _, i := range perm[from : from+500] {
			ops = append(ops, &KVDelete{Key: kvk(fmt.Sprintf("%02d/%05d", i%100, i))})
		}
		r.apply(ops...)
	}
	r.ok(&DeadPurge{Queue: []byte("q")})
	r.tick(KVTombMillis)
	for range 60 {
		r.tick(1)
	}
	r.empty()
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	if b := r.s.KVStats().Bytes; b > 500_000 {
		t.Fatalf("%d bytes are held by an empty KV", b)
	}
}
