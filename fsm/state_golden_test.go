package fsm

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// goldenRig plays a fixed log that has every operation and leaves every table filled.
func goldenRig(t testing.TB) *rig {
	r := newRig(t)
	ses := r.ok(&OpenSession{}).ID
	other := r.ok(&OpenSession{}).ID
	r.tick(5)
	r.ok(&TouchSession{Session: other})
	r.ok(&CreateQueue{Request: Request{Session: ses, Number: 1}, Name: []byte("q"), Options: QueueOptions{
		Retry: RetryPolicy{Kind: RetryExponential, JitterMillis: 40}, MaxDead: 5, DeadOverflow: DeadDropOldest,
	}})
	mixed(r)
	m := Message{
		TaskID: []byte("everything"), Kind: []byte("kind"), ContentType: []byte("text/plain"), Key: []byte("key"), Body: []byte("body"),
		Headers: []Header{{[]byte("traceparent"), []byte("00-1")}, {[]byte("empty"), nil}}, Priority: 9, HasDedup: true,
		DedupKey: HashDedup([]byte("k")), DedupContent: HashContent([]byte("kind"), []byte("body")), TTLMillis: 90_000,
		TimeoutMillis: 60_000, Retry: RetryPolicy{Kind: RetrySchedule, Steps: []int64{1, 2, 3}},
	}
	r.apply(&Enqueue{Request: Request{Session: ses, Number: 2}, Queue: []byte("q"), Messages: []Message{m, text("second"), m}})
	r.tick(3)
	tok := r.lease1()
	r.ok(&Extend{Token: tok, LeaseMillis: 5000})
	r.ok(&Nack{Token: tok, Error: []byte("broken"), DelayMillis: -1})
	r.tick(1)
	r.ok(&Ack{
		Token: r.lease1(), HasResult: true, Result: Result{Output: []byte("out"), ContentType: []byte("a/b")},
		Then: []ThenMessage{{Queue: []byte("next"), Message: text("then")}}, ThenAutoCreate: true,
	})
	r.ok(&Ack{Token: r.lease1()})
	r.ok(&PushResult{Request: Request{Session: ses, Number: 6}, Queue: []byte("next"), TaskID: []byte("pushed"), Kind: []byte("p"), Result: Result{Output: []byte("o")}})
	r.ok(&SetQueue{Name: []byte("next"), Options: QueueOptions{LeaseMillis: 777}})
	var dead ID
	r.s.Dead(1, 0, ID{}, func(in *Info) bool { dead = in.ID; return false })
	r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{dead}})
	r.ok(&Enqueue{Queue: []byte("gone"), AutoCreate: true, Messages: []Message{text("x")}})
	r.ok(&PurgeQueue{Name: []byte("gone")})
	r.ok(&DeadPurge{Queue: []byte("gone")})
	r.ok(&DeleteQueue{Name: []byte("gone")})
	r.ok(&Lease{Request: Request{Session: ses, Number: 8, Low: 2}, Queue: []byte("next"), Consumer: Consumer{Session: ses, Sub: 4}, Worker: []byte("host:1:0"), Max: 2})
	r.ok(&Nack{Token: r.fx.Leases[0].Token, Permanent: true, Error: []byte("never")})
	r.ok(&DeadDelete{Queue: []byte("next"), IDs: []ID{{1, 1}, r.fx.Ended[0].Token.Message}[1:]})
	r.ok(&Release{Token: r.lease1()})
	r.now += 40
	r.applyData(r.entry(25, &Checkpoint{Nonce: 9}, &Enqueue{Queue: []byte("q"), Messages: []Message{{Body: []byte("last"), DelayMillis: 1e6}}}))
	r.ok(&Enqueue{Queue: []byte("lost"), AutoCreate: true, Messages: []Message{keyed("undelivered", "lost/1", "lost/2")}})
	r.ok(&Lease{Queue: []byte("lost"), Consumer: someone, Max: 1})
	r.ok(&Nack{Token: r.fx.Leases[0].Token, Permanent: true})
	r.ok(&KVDelete{Key: kvk("lost/2")})
	r.ok(&Enqueue{Queue: []byte("lost"), Messages: []Message{keyed("alive", "lost/3")}})
	r.ok(&CreateSchedule{Request: Request{Session: ses, Number: 9, Low: 2}, Schedule: daily("daily")})
	r.ok(&FireSchedule{Name: []byte("daily"), Generation: 1, Next: r.now - 20})
	r.ok(&FireSchedule{Name: []byte("daily"), Generation: 1, At: r.now - 20, Next: r.now + 1000, Fire: true, Skipped: 2})
	changed := daily("weekly")
	changed.Zone, changed.JitterMillis, changed.Policy = []byte("Europe/Berlin"), 60_000, MissedAll
	r.ok(&SetSchedule{Schedule: changed})
	r.ok(&CreateSchedule{Schedule: daily("gone")})
	r.ok(&DeleteSchedule{Name: []byte("gone")})
	sealed, open := r.newBatch(), r.newBatch()
	r.ok(&BatchSeal{Batch: sealed})
	r.ok(&Enqueue{Queue: []byte("lost"), Messages: []Message{memberOf(open, "member")}})
	sealed = r.newBatch()
	r.ok(&Enqueue{Queue: []byte("lost"), Messages: []Message{memberOf(sealed, "member")}})
	r.ok(&BatchSeal{Batch: sealed})
	r.ok(&CreateQueue{Name: []byte("origin"), Options: QueueOptions{DeadLetterQueue: "morgue", Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 1}}})
	for _, task := range []string{"stays", "moved", "", "edited"} {
		r.ok(&Enqueue{Queue: []byte("origin"), Messages: []Message{{TaskID: []byte(task), Body: []byte(task), TTLMillis: 90_000}}})
		r.ok(&Lease{Queue: []byte("origin"), Consumer: someone, Worker: []byte("w"), Max: 1, LeaseMillis: 1000})
		r.ok(&Nack{Token: r.fx.Leases[0].Token, Error: []byte("to the morgue"), DelayMillis: -1})
		if task == "stays" {
			r.ok(&CreateQueue{Name: []byte("morgue")})
		}
	}
	var in Info
	r.s.Task("origin", []byte("edited"), &in)
	r.ok(&DeadEdit{Queue: []byte("morgue"), ID: in.ID, Fields: EditBody | EditDelay, Message: Message{Body: []byte("new"), DelayMillis: 1e6}})
	r.put(text("dead again"))
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	r.lease(2)
	goldenTasks(r)
	goldenRates(r)
	goldenModes(r)
	goldenPush(r)
	goldenMapping(r)
	goldenIdems(r)
	return r
}

// goldenIdems has keys with answers of every kind.
func goldenIdems(r *rig) {
	q := []byte("idem")
	batch := under("a", &Enqueue{Queue: q, AutoCreate: true, Messages: []Message{text("1"), text("2"), {Priority: 200}, {Priority: 200}, text("3")}})
	batch.Note = []byte("a note")
	r.apply(batch)
	r.tick(1)
	r.ok(under("b", &Lease{Queue: q, Consumer: someone, Worker: []byte("w"), Max: 2, LeaseMillis: 60_000}))
	leased := append([]Leased(nil), r.fx.Leases...)
	r.ok(part("b", 1, &Extend{Token: leased[0].Token, LeaseMillis: 50_000}))
	r.ok(part("b", 2, &Nack{Token: leased[1].Token, Permanent: true}))
	r.refused(under("c", &PurgeQueue{Name: []byte("none")}), NotFound, FieldQueue)
	r.ok(under("d", &PushResult{Queue: q, TaskID: []byte("t"), Result: Result{Output: []byte("o")}}))
	r.ok(under("e", &PushResult{Queue: q, TaskID: []byte("t"), Result: Result{Output: []byte("o")}}))
	r.apply(under("b", &Lease{Queue: q, Max: 1}), batch)
}

// goldenRates has a rate that is in debt.
func goldenRates(r *rig) {
	r.ok(&CreateQueue{Name: []byte("rated"), Options: QueueOptions{RateMilli: 2500, Burst: 2}})
	r.apply(&Enqueue{Queue: []byte("rated"), Messages: []Message{text("1"), text("2"), text("3")}})
	r.ok(&Lease{Queue: []byte("rated"), Consumer: someone, Max: 3})
	keys := []byte("keys")
	r.ok(&CreateQueue{Name: keys, Options: QueueOptions{
		MaxInFlightPerKey: 3, RatePerKeyMilli: 2500, BurstPerKey: 2, FairBy: FairByKey, FairWeights: []FairWeight{{"a", 2}, {"c", 3}},
	}})
	for _, k := range []string{"a", "a", "a", "b", "b", "b", "", "", "c", "c", "c", "d", "d", "d"} {
		r.ok(&Enqueue{Queue: keys, Messages: []Message{{Key: []byte(k), Priority: DefaultPriority}}})
	}
	r.apply(&Enqueue{Queue: keys, Messages: []Message{{Key: []byte("e"), Priority: 9}, {Key: []byte("f"), Priority: 9}}})
	r.ok(&Lease{Queue: keys, Consumer: someone, Worker: []byte("w"), Max: 8, LeaseMillis: 60_000})
	r.ok(&Release{Token: r.fx.Leases[3].Token})
	r.ok(&Lease{Queue: keys, Consumer: someone, Worker: []byte("w"), Max: 1, LeaseMillis: 60_000})
	r.ok(&CreateQueue{Name: []byte("places"), Options: QueueOptions{MaxInFlightPerKey: 1}})
	r.apply(&Enqueue{Queue: []byte("places"), Messages: []Message{{Key: []byte("a")}, {Key: []byte("a")}, {Key: []byte("b")}}})
	r.ok(&Lease{Queue: []byte("places"), Consumer: someone, Worker: []byte("w"), Max: 1, LeaseMillis: 60_000})
}

// goldenModes has a queue that drops what waits, and one that delivers at most once.
func goldenModes(r *rig) {
	r.ok(&CreateQueue{Name: []byte("ring"), Options: QueueOptions{MaxDepth: 3, Overflow: OverflowDropOldest, DeadLetterQueue: "morgue"}})
	r.apply(&Enqueue{Queue: []byte("ring"), Messages: []Message{prio("1", 2), prio("2", 1), delayed("3", 1000), text("4"), text("5")}})
	r.ok(&Lease{Queue: []byte("ring"), Consumer: someone, Max: 1})
	r.ok(&Ack{Token: r.fx.Leases[0].Token, Then: []ThenMessage{{[]byte("ring"), text("6")}}})
	r.ok(&CreateQueue{Name: []byte("once"), Options: QueueOptions{Ordering: OrderFIFO, Delivery: DeliverAtMostOnce}})
	r.apply(&Enqueue{Queue: []byte("once"), Messages: []Message{text("1"), text("2"), text("3")}})
	r.ok(&Lease{Queue: []byte("once"), Consumer: someone, Max: 2})
}

// goldenPush has a queue that is pushed, one that only says how, and one that was.
func goldenPush(r *rig) {
	r.ok(&CreateQueue{Name: []byte("pushed"), Options: QueueOptions{PushURL: "https://example.org/in", PushConcurrency: 3, PushTimeoutMillis: 2500,
		PushSecrets: []string{"new", "old"}, PushPermanent: []int64{400, 410}, PushHeaders: []string{"traceparent", "x-a"}}})
	r.ok(&CreateQueue{Name: []byte("said"), Options: QueueOptions{PushSecrets: []string{"new"}}})
	r.ok(&CreateQueue{Name: []byte("was"), Options: QueueOptions{PushURL: "http://example.org"}})
	r.ok(&SetQueue{Name: []byte("was")})
}

// goldenMapping has queues with a schema, a mapping of pushes, and one to another queue, by which a message came there and another died.
func goldenMapping(r *rig) {
	r.ok(&CreateQueue{Name: []byte("typed"), Options: QueueOptions{Schema: `{"type":"object"}`, Map: "body.a"}})
	r.ok(&CreateQueue{Name: []byte("maps"), Options: QueueOptions{MapTo: MapTo{"typed", "body"}}})
	n, _ := r.s.QueueNumber([]byte("maps"))
	generation := r.s.MappingGeneration(n)
	r.apply(&Enqueue{Queue: []byte("maps"), Messages: []Message{text("{}"), text("{"), text("stays")}})
	r.ok(&Lease{Queue: []byte("maps"), Consumer: someone, Max: 2})
	maps, fails := r.fx.Leases[0].Token, r.fx.Leases[1].Token
	r.ok(&Ack{Token: maps, Mapping: generation, Then: []ThenMessage{{[]byte("typed"), text("{}")}}})
	r.ok(&Nack{Token: fails, Mapping: generation, Error: []byte("map_to: 1:1"), DelayMillis: -1})
}

// goldenTasks cancels, moves and changes tasks in every state that the rig can bring about.
func goldenTasks(r *rig) {
	q := []byte("tasks")
	r.ok(&CreateQueue{Name: q})
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		m := text(id)
		m.TaskID = []byte(id)
		r.ok(&Enqueue{Queue: q, Messages: []Message{m}})
	}
	r.ok(&Lease{Queue: q, Consumer: someone, Worker: []byte("w"), Max: 2, LeaseMillis: 60_000})
	leased := append([]Leased(nil), r.fx.Leases...)
	for _, id := range []string{"a", "b", "c"} {
		r.ok(&Cancel{Queue: q, TaskID: []byte(id)})
	}
	r.refused(&Release{Token: leased[1].Token}, Cancelled, FieldToken)
	r.ok(&Reschedule{Queue: q, TaskID: []byte("d"), When: AfterDelay, Time: 7000, MaxWaitMillis: 5000})
	r.ok(&Reschedule{Queue: q, TaskID: []byte("e"), When: AtTime, Time: r.now + 100, HasBody: true, Body: []byte("E"), ContentType: []byte("text/x")})
}

// TestGoldenStates replays a log of an earlier build and compares digests at each entry and the snapshot at the end. The
// files are formats: once released they are added to, never edited.
func TestGoldenStates(t *testing.T) {
	logFile, snapFile := filepath.Join("testdata", "state.log"), filepath.Join("testdata", "state.snapshot")
	if *update {
		r := goldenRig(t)
		r.everywhere()
		s := New(3)
		defer s.Close()
		var b strings.Builder
		for i, data := range r.log {
			if err := s.Apply(uint64(i+1), data, nil); err != nil {
				t.Fatal(err)
			}
			d := digest(s)
			fmt.Fprintf(&b, "%d %x %x\n", i+1, data, d[:8])
		}
		if err := os.WriteFile(logFile, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(snapFile, snapshot(t, r.s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(logFile)
	if err != nil {
		t.Fatal(err)
	}
	s := New(3)
	defer s.Close()
	for line := range strings.Lines(string(text)) {
		var index uint64
		var data, sum string
		if _, err := fmt.Sscan(line, &index, &data, &sum); err != nil {
			t.Fatal(err)
		}
		raw, err := hex.DecodeString(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(index, raw, nil); err != nil {
			t.Fatal(err)
		}
		if d := digest(s); hex.EncodeToString(d[:8]) != sum {
			t.Fatalf("entry %d: digest %x, want %s", index, d[:8], sum)
		}
	}
	want, err := os.ReadFile(snapFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(snapshot(t, s), want) {
		t.Fatal("the snapshot at the end is another")
	}
	b := restored(t, want)
	b.Close()
}

// TestGoldenLogIsCurrent says when this build would write the golden log otherwise.
func TestGoldenLogIsCurrent(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "state.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, data := range goldenRig(t).log {
		if f := strings.Fields(lines[i]); f[1] != hex.EncodeToString(data) {
			t.Fatalf("entry %d is encoded otherwise", i+1)
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	r := goldenRig(t)
	good := snapshot(t, r.s)
	if _, err := Restore(4, bytes.NewReader(good)); err == nil {
		t.Fatal("another group: no error")
	}
	for at := 0; at < len(good); at++ { // each byte flipped: refused, never another state
		bad := append([]byte(nil), good...)
		bad[at] ^= 0x10
		if s, err := Restore(3, bytes.NewReader(bad)); err == nil {
			s.Close()
			t.Fatalf("byte %d of %d flipped: no error", at, len(good))
		}
	}
	for at := 0; at < len(good); at += 7 {
		if s, err := Restore(3, bytes.NewReader(good[:at])); err == nil {
			s.Close()
			t.Fatalf("cut at %d of %d: no error", at, len(good))
		}
	}
}

// rewrite is a snapshot with its sections' bytes changed and every checksum made right again.
func rewrite(t testing.TB, snap []byte, number uint8, change func(b []byte) []byte) []byte {
	t.Helper()
	f, err := newFrameReader(bytes.NewReader(snap))
	if err != nil {
		t.Fatal(err)
	}
	_ = f
	// Frames are taken apart by hand: the reader knows no records without their shape.
	var out bytes.Buffer
	w := newFrameWriter(&out, f.header)
	pos := framePreamble
	var body []byte
	var section uint8
	for pos < len(snap) {
		switch snap[pos] {
		case frameSection:
			section, body = snap[pos+1], nil
			pos += frameSectionSize
		case frameBytes:
			n := int(binary.LittleEndian.Uint32(snap[pos+1:]))
			pos += frameBlockHead
			body = append(body, snap[pos:pos+n]...)
			pos += n
		case frameEnd:
			records := binary.LittleEndian.Uint64(snap[pos+1:])
			if section == number {
				body = change(body)
			}
			w.section(section)
			for range records {
				w.record()
			}
			for _, c := range body {
				w.u8(c)
			}
			pos += frameEndSize
		default:
			pos = len(snap)
		}
	}
	if _, err := w.close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// FuzzRestore changes a good snapshot behind its checksums: an error, or a state that passes every check, gives its own
// snapshot again and goes on applying; and never more memory than the input accounts for.
func FuzzRestore(f *testing.F) {
	r := goldenRig(f)
	good := snapshot(f, r.s)
	f.Add(sectionMessages, uint16(30), []byte{3})
	for number := sectionCounters; number <= sectionIdems; number++ {
		for at := range 40 {
			f.Add(number, uint16(at*3), []byte{byte(at * 7)})
		}
	}
	f.Fuzz(func(t *testing.T, number uint8, at uint16, with []byte) {
		snap := rewrite(t, good, number, func(b []byte) []byte {
			if len(b) == 0 {
				return b
			}
			i := int(at) % len(b)
			out := append([]byte(nil), b[:i]...)
			out = append(out, with...)
			return append(out, b[min(len(b), i+max(1, len(with))):]...)
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := Restore(3, bytes.NewReader(snap))
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20+16*uint64(len(snap)) {
			t.Fatalf("restoring %d bytes allocates %d", len(snap), n)
		}
		if err != nil {
			return
		}
		defer s.Close()
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		if m := s.Memory(); m.ArenaHeld > 64<<20 || m.TableBytes > 8<<20 {
			t.Fatalf("memory %+v for %d bytes", m, len(snap))
		}
		if again := snapshot(t, s); !bytes.Equal(again, snap) {
			t.Fatal("another snapshot")
		}
		var fx Effects
		for i := range uint64(3) {
			op := &Lease{Queue: []byte("q"), Max: 100}
			data := AppendOp(AppendEntryHeader(nil, s.Time()+int64(i)*100_000, 0), op)
			if err := s.Apply(s.Index()+1, data, &fx); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
