package fsmtest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/quorate/quorate/fsm"
)

var update = flag.Bool("update", false, "rewrite the golden log, digests and snapshot")

const (
	goldenEntries    = 2700
	goldenEvery      = 150 // entries between digests
	goldenSnapshotAt = goldenEntries / 2
	goldenGroup      = 7
	goldenSeed       = 20
	goldenMost       = 300 << 10 // bytes of all files together
)

// goldenEntry is one entry of a log as a node stores it.
type goldenEntry struct {
	index uint64
	data  []byte
}

// TestGolden applies a log that earlier builds have written and wants the digests and the snapshot that they had, all along
// and when it goes on from the snapshot. Files: log.gz is entries of uvarint index, uvarint length, bytes; digests has
// a line for each checkpoint, index and SHA-256; snapshot.gz is the snapshot in the middle.
func TestGolden(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	log := readLog(t)
	checkGoldenLog(t, log)
	digests := readDigests(t)
	snapshot := unzip(t, "snapshot.gz")

	s := fsm.New(goldenGroup)
	defer func() { s.Close() }()
	apply := func(from int) {
		for i := from; i < len(log); i++ {
			if err := s.Apply(log[i].index, log[i].data, nil); err != nil {
				t.Fatalf("entry %d: %v", log[i].index, err)
			}
			if want, ok := digests[log[i].index]; ok {
				if got := fmt.Sprintf("%x", digest(s)); got != want {
					t.Fatalf("digest at %d: want %s, got %s", log[i].index, want, got)
				}
			}
			if from == 0 && i+1 == goldenSnapshotAt {
				var b bytes.Buffer
				v := s.View()
				_, err := v.WriteTo(&b)
				v.Release()
				if err != nil || !bytes.Equal(b.Bytes(), snapshot) {
					t.Fatalf("snapshot at %d: %d bytes, want %d, first difference at %d, error %v",
						log[i].index, b.Len(), len(snapshot), firstDifference(b.Bytes(), snapshot), err)
				}
			}
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	apply(0)
	restored, err := fsm.Restore(goldenGroup, bytes.NewReader(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = restored
	apply(goldenSnapshotAt)
}

// checkGoldenLog wants every operation, and every option of a queue and of a message, in the log.
func checkGoldenLog(t *testing.T, log []goldenEntry) {
	t.Helper()
	ops, fields := map[string]bool{}, map[string]bool{}
	note := func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				fields[prefix+"."+v.Type().Field(i).Name] = true
			}
		}
	}
	for _, e := range log {
		entry, err := fsm.DecodeEntry(e.data)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range entry.Ops {
			v := reflect.ValueOf(op).Elem()
			ops[v.Type().Name()] = true
			note(v.Type().Name(), v)
			switch op := op.(type) {
			case *fsm.CreateQueue:
				note("QueueOptions", reflect.ValueOf(op.Options))
				note("RetryPolicy", reflect.ValueOf(op.Options.Retry))
			case *fsm.SetQueue:
				note("QueueOptions", reflect.ValueOf(op.Options))
			case *fsm.Enqueue:
				for _, x := range op.Messages {
					note("Message", reflect.ValueOf(x))
					note("RetryPolicy", reflect.ValueOf(x.Retry))
				}
			case *fsm.SetSchedule:
				note("Schedule", reflect.ValueOf(op.Schedule))
			}
		}
	}
	var missing []string
	for _, op := range everyOp {
		v := reflect.TypeOf(op).Elem()
		if !ops[v.Name()] {
			missing = append(missing, v.Name())
		}
		for i := range v.NumField() {
			if name := v.Name() + "." + v.Field(i).Name; !fields[name] {
				missing = append(missing, name)
			}
		}
	}
	for _, x := range []any{fsm.QueueOptions{}, fsm.Message{}, fsm.RetryPolicy{}, fsm.Schedule{}} {
		v := reflect.TypeOf(x)
		for i := range v.NumField() {
			if name := v.Name() + "." + v.Field(i).Name; !fields[name] {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("the golden log is without %s", strings.Join(missing, ", "))
	}
}

// everyOp is one of each operation.
var everyOp = []fsm.Op{
	&fsm.Bootstrap{}, &fsm.OpenSession{}, &fsm.TouchSession{}, &fsm.CreateQueue{}, &fsm.SetQueue{}, &fsm.DeleteQueue{}, &fsm.PurgeQueue{},
	&fsm.Enqueue{}, &fsm.Lease{}, &fsm.Ack{}, &fsm.Nack{}, &fsm.Extend{}, &fsm.Release{}, &fsm.PushResult{},
	&fsm.DeadRequeue{}, &fsm.DeadDelete{}, &fsm.DeadPurge{}, &fsm.DeadEdit{}, &fsm.Checkpoint{}, &fsm.Cancel{}, &fsm.Reschedule{},
	&fsm.KVDelete{}, &fsm.BatchCreate{}, &fsm.BatchSeal{},
	&fsm.CreateSchedule{}, &fsm.SetSchedule{}, &fsm.DeleteSchedule{}, &fsm.FireSchedule{},
	&fsm.Idempotent{}, &fsm.Nothing{},
}

// goldenTail are entries by hand, of what the generator does not draw.
func goldenTail(now int64) []fsm.Entry {
	queue, worker := []byte("tail"), []byte("w")
	enqueue := func(n int) *fsm.Enqueue {
		return &fsm.Enqueue{Queue: queue, AutoCreate: true, Messages: slices.Repeat([]fsm.Message{{Body: []byte("x"), Priority: 4}}, n)}
	}
	keyed := &fsm.Enqueue{Queue: []byte("keyed")}
	for _, k := range []string{"a", "a", "a", "b", "", "b"} {
		keyed.Messages = append(keyed.Messages, fsm.Message{Key: []byte(k), Priority: 4})
	}
	turns := &fsm.Lease{Queue: []byte("keyed"), Worker: worker, Max: 3, MaxBytes: 100}
	lease := &fsm.Lease{Queue: queue, Worker: worker, Max: 2, MaxBytes: 100, Waits: true}
	return []fsm.Entry{
		{Now: now, Ops: []fsm.Op{
			&fsm.CreateQueue{Name: queue, Options: fsm.QueueOptions{MaxDepth: 3, Overflow: fsm.OverflowDropOldest, RateMilli: 2500, Burst: 2}},
			enqueue(5), lease, lease,
		}},
		{Now: now + 400, Ops: []fsm.Op{lease, &fsm.PurgeQueue{Name: queue}}},
		{Now: now + 60_000},
		{Now: now + 60_001, Ops: []fsm.Op{&fsm.PurgeQueue{Name: queue}, &fsm.SetQueue{Name: queue, Options: fsm.QueueOptions{Delivery: fsm.DeliverAtMostOnce}}, enqueue(3), lease}},
		{Now: now + 60_002, Ops: []fsm.Op{lease, lease}},
		{Now: now + 60_003, Ops: []fsm.Op{
			&fsm.CreateQueue{Name: []byte("keyed"), Options: fsm.QueueOptions{
				MaxInFlightPerKey: 2, RatePerKeyMilli: 1500, BurstPerKey: 2, FairBy: fsm.FairByKey, FairWeights: []fsm.FairWeight{{Key: "a", Weight: 2}},
			}},
			keyed, turns,
		}},
		{Now: now + 60_500, Ops: []fsm.Op{turns, &fsm.CreateQueue{Name: []byte("pushed"), Options: fsm.QueueOptions{
			PushURL: "https://example.org/in", PushConcurrency: 3, PushTimeoutMillis: 2500, PushSecrets: []string{"new", "old"},
			PushPermanent: []int64{400, 410}, PushHeaders: []string{"traceparent", "x-a"},
		}}}},
		{Now: now + 61_500, Ops: []fsm.Op{turns, &fsm.CreateQueue{Name: []byte("maps"), Options: fsm.QueueOptions{
			Schema: "true", Map: "body.a", MapTo: fsm.MapTo{Queue: "mapped", Expression: "body"},
		}}}},
		{Now: now + 61_501, Ops: []fsm.Op{
			goldenKeyed(1, 0, enqueue(3)), goldenKeyed(1, 1, lease), goldenKeyed(1, 0, enqueue(3)), goldenKeyed(2, 0, lease),
			goldenKeyed(3, 0, &fsm.PurgeQueue{Name: []byte("none")}), goldenKeyed(4, 0, &fsm.Nothing{}),
		}},
		{Now: now + 61_502, Ops: []fsm.Op{goldenKeyed(1, 1, lease), goldenKeyed(3, 0, &fsm.PurgeQueue{Name: queue}), goldenKeyed(4, 0, &fsm.PurgeQueue{Name: queue})}},
	}
}

// goldenKeyed is part of a request with a key.
func goldenKeyed(key byte, part uint32, op fsm.Op) *fsm.Idempotent {
	return &fsm.Idempotent{IdempotencyKey: fsm.IdempotencyKey{Key: [16]byte{key}, Print: [16]byte{1, key}, Part: part}, Note: []byte("note"), Op: op}
}

func goldenFile(name string) string { return filepath.Join("testdata", "golden."+name) }

func unzip(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(goldenFile(name))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	return b
}

func readLog(t *testing.T) (log []goldenEntry) {
	t.Helper()
	b := unzip(t, "log.gz")
	for len(b) > 0 {
		index, n := binary.Uvarint(b)
		size, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 || uint64(len(b)-n-m) < size {
			t.Fatalf("log.gz is cut off behind %d entries", len(log))
		}
		b = b[n+m:]
		log = append(log, goldenEntry{index, b[:size:size]})
		b = b[size:]
	}
	return log
}

func readDigests(t *testing.T) map[uint64]string {
	t.Helper()
	b, err := os.ReadFile(goldenFile("digests"))
	if err != nil {
		t.Fatal(err)
	}
	digests := map[uint64]string{}
	for line := range strings.Lines(string(b)) {
		var index uint64
		var sum string
		if _, err := fmt.Sscanf(line, "%d %s", &index, &sum); err != nil {
			t.Fatalf("digests: %q: %v", line, err)
		}
		digests[index] = sum
	}
	if len(digests) < goldenEntries/goldenEvery {
		t.Fatalf("%d digests", len(digests))
	}
	return digests
}

// writeGolden draws a log anew, compares state and model over it, and writes what the state came to.
func writeGolden(t *testing.T) {
	t.Helper()
	p := NewPair(goldenGroup, true)
	defer p.Close()
	g := NewGenerator(goldenSeed, p.Model)
	g.crowd, g.heavy, g.focus, g.tiny, g.index = false, false, 0, true, 0
	g.queues = []string{"jobs", "mail.out", "A:b-c_d.9"}
	g.extra = extras{tasks: 12, keys: 30, kv: 4, members: 30, batching: 5, scheduling: 3}
	var log, digests, snapshot bytes.Buffer
	for i := 1; i <= goldenEntries; i++ {
		index, e := g.Next()
		fx, err := p.Apply(index, e)
		if err != nil {
			t.Fatal(err)
		}
		g.Saw(e, fx)
		last := p.log[len(p.log)-1]
		log.Write(binary.AppendUvarint(binary.AppendUvarint(nil, index), uint64(len(last.data))))
		log.Write(last.data)
		if i%goldenEvery == 0 {
			fmt.Fprintf(&digests, "%d %x\n", index, digest(p.State))
		}
		if i == goldenSnapshotAt {
			v := p.State.View()
			if _, err := v.WriteTo(&snapshot); err != nil {
				t.Fatal(err)
			}
			v.Release()
		}
	}
	if err := p.CompareQueries(); err != nil {
		t.Fatal(err)
	}
	for i, e := range goldenTail(p.Model.t) {
		data := p.encode(e)
		index := p.Model.index + 1 + uint64(i)
		log.Write(binary.AppendUvarint(binary.AppendUvarint(nil, index), uint64(len(data))))
		log.Write(data)
		if err := p.State.Apply(index, data, nil); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&digests, "%d %x\n", index, digest(p.State))
	}
	files := map[string][]byte{"log.gz": zip(t, log.Bytes()), "digests": digests.Bytes(), "snapshot.gz": zip(t, snapshot.Bytes())}
	var names []string
	size := 0
	for name, b := range files {
		names = append(names, fmt.Sprintf("%s %d", name, len(b)))
		size += len(b)
	}
	sort.Strings(names)
	t.Log(names)
	if size > goldenMost {
		t.Fatalf("golden files of %d bytes, want at most %d", size, goldenMost)
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if err := os.WriteFile(goldenFile(name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func zip(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
