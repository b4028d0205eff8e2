package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

const declaredFile = `node_id = "d"

[[queue]]
name      = "webhooks"
ordering  = "per_key"
lease_ms  = 5000
schema    = '{"type":"object"}'
map_to    = { queue = "mapped", expression = "body.id" }
[queue.retry]
kind         = "exponential"
max_attempts = 7

[[queue]]
name     = "plain"
max_dead = 10
dead_letter_queue = "webhooks"
max_depth = 1000
overflow = "drop_oldest"
max_age_ms = 60000
rate      = 100
burst     = 7
max_in_flight_per_key = 3
rate_per_key = 2.5
burst_per_key = 4
fair_by = "key"
fair_weights = { tenant-7 = 3, "a b" = 2 }
push_url = "https://example.org/in"
push_concurrency = 4
push_timeout_ms = 2500
push_secrets = ["new", "old"]
push_permanent = [410, 400]
push_headers = ["Traceparent"]
map = "body.order"

[[schedule]]
name     = "nightly"
queue    = "plain"
cron     = "0 3 * * *"
zone     = "Europe/Berlin"
missed   = "once"
body     = "all of it"
priority = 9
headers  = { b = "2", a = "1" }
keys_if_undelivered = [["lost", "nightly"], ["a/b"]]
[schedule.retry]
kind     = "schedule"
steps_ms = [1000, 2000]
`

func TestDeclaredErrors(t *testing.T) {
	t.Parallel()
	if r, err := resolveWith(t, declaredFile, nil, nil); err != nil || len(r.Queues) != 2 || len(r.Schedules) != 1 {
		t.Fatalf("%v: %+v", err, r)
	}
	for _, tc := range []struct {
		name, file string
		want       []string
	}{
		{"unknown key of a queue", "[[queue]]\nname = \"a\"\nleese_ms = 1\n", []string{"line 3", "leese_ms", "lease_ms"}},
		{"unknown key of a retry policy", "[[queue]]\nname = \"a\"\n[queue.retry]\nkinds = 1\n", []string{"line 4", "kinds", "max_attempts"}},
		{"unknown key of a schedule", "[[schedule]]\nname = \"a\"\ntimezone = \"x\"\n", []string{"line 3", "timezone", "zone"}},
		{"queue without a name", "[[queue]]\nname = \"a\"\n\n[[queue]]\nlease_ms = 5000\n", []string{"quorate.toml:4", "name"}},
		{"bad value of the second queue", "[[queue]]\nname = \"a\"\nlease_ms = 5000\n[[queue]]\nname = \"b\"\nlease_ms = 5\n", []string{"quorate.toml:6", `"b"`, "lease_ms", "100"}},
		{"bad ordering", "[[queue]]\nname = \"a\"\nordering = \"sorted\"\n", []string{"quorate.toml:3", "per_key"}},
		{"bad overflow", "[[queue]]\nname = \"a\"\noverflow = \"drop\"\n", []string{"quorate.toml:3", "drop_oldest"}},
		{"its own dead-letter queue", "[[queue]]\nname = \"a\"\ndead_letter_queue = \"a\"\n", []string{"quorate.toml:3", "another"}},
		{"bad retry", "[[queue]]\nname = \"a\"\n[queue.retry]\nkind = \"often\"\n", []string{"quorate.toml:", "retry", "exponential"}},
		{"wrong type", "[[queue]]\nname = \"a\"\nmax_dead = \"many\"\n", []string{"line 3", "queue.max_dead", "whole number"}},
		{"wrong type of a name", "[[queue]]\nname = 5\n", []string{"line 2", "queue.name", "string in quotes"}},
		{"wrong type of a switch", "[[queue]]\nname = \"a\"\npaused = \"yes\"\n", []string{"line 3", "queue.paused", "true or false"}},
		{"wrong type of a rate", "[[queue]]\nname = \"a\"\nrate = \"2\"\n", []string{"line 3", "queue.rate", "a number without quotes"}},
		{"wrong type of a table", "[[queue]]\nname = \"a\"\nretry = \"fixed:1s*3\"\n", []string{"line 3", "a table [queue.retry]", "max_attempts"}},
		{"wrong type within a table", "[[queue]]\nname = \"a\"\n[queue.retry]\nsteps_ms = \"1s\"\n", []string{"line 4", "queue.retry.steps_ms", "[1000, 5000]"}},
		{"wrong type of weights", "[[queue]]\nname = \"a\"\nfair_weights = 3\n", []string{"line 3", "{ name = 1 }"}},
		{"wrong type of a weight", "[[queue]]\nname = \"a\"\n[queue.fair_weights]\nb = \"x\"\n", []string{"line 4", "whole number"}},
		{"wrong type of headers", "[[schedule]]\nname = \"a\"\nheaders = [\"a\"]\n", []string{"line 3", "{ name = \"value\" }"}},
		{"keys that are texts", "[[schedule]]\nname = \"a\"\nkeys_if_undelivered = [\"lost/a\"]\n", []string{"line 3", "schedule.keys_if_undelivered", `[["lost", "nightly"]]`}},
		{"a key without strings", "[[schedule]]\nname = \"a\"\nqueue = \"q\"\ncron = \"@daily\"\nkeys_if_undelivered = [[]]\n", []string{"quorate.toml:5", "keys_if_undelivered[0]", "1 to 16"}},
		{"a key twice", "[[schedule]]\nname = \"a\"\nqueue = \"q\"\ncron = \"@daily\"\nkeys_if_undelivered = [[\"a\"], [\"a\"]]\n", []string{"quorate.toml:5", "the same as key 0"}},
		{"wrong type behind a pointer", "[[schedule]]\nname = \"a\"\npriority = \"x\"\n", []string{"line 3", "whole number"}},
		{"no tables", "queue = 3\n", []string{"line 1", "[[queue]]"}},
		{"bad rate", "[[queue]]\nname = \"a\"\nrate = 0.0001\n", []string{"quorate.toml:3", "three places", "2.5"}},
		{"rate out of range", "[[queue]]\nname = \"a\"\nrate = -2.5\n", []string{"quorate.toml:3", "-2.5", "0.001"}},
		{"bad rate of a key", "[[queue]]\nname = \"a\"\nrate_per_key = 0.0001\n", []string{"quorate.toml:3", "three places"}},
		{"keys in a fifo queue", "[[queue]]\nname = \"a\"\nordering = \"fifo\"\nfair_by = \"key\"\n", []string{"quorate.toml:4", "fifo", "unordered"}},
		{"weights without fair_by", "[[queue]]\nname = \"a\"\nfair_weights = { b = 1 }\n", []string{"quorate.toml:3", "fair_by"}},
		{"weight out of range", "[[queue]]\nname = \"a\"\nfair_by = \"key\"\nfair_weights = { b = 101 }\n", []string{"quorate.toml:", "101", "1 to 100"}},
		{"a schema that is none", "[[queue]]\nname = \"a\"\nschema = \"{\"\n", []string{"quorate.toml:3", "schema", "no JSON"}},
		{"a map that is none", "[[queue]]\nname = \"a\"\nmap = \"now()\"\n", []string{"quorate.toml:3", "map", "1:1"}},
		{"a mapping to itself", "[[queue]]\nname = \"a\"\nmap_to = { queue = \"a\", expression = \"body\" }\n", []string{"quorate.toml:3", "map_to", "another"}},
		{"a mapping to nowhere", "[[queue]]\nname = \"a\"\nmap_to = { expression = \"body\" }\n", []string{"quorate.toml:3", "map_to", "missing"}},
		{"an unknown key of map_to", "[[queue]]\nname = \"a\"\n[queue.map_to]\nqueues = \"b\"\n", []string{"line 4", "queues", "expression"}},
		{"a push URL that is none", "[[queue]]\nname = \"a\"\npush_url = \"example.org\"\n", []string{"quorate.toml:3", "push_url", "https://"}},
		{"a push secret in its place", "[[queue]]\nname = \"a\"\npush_secrets = [\"whsec_a/b=\"]\n", []string{"quorate.toml:3", "push_secrets", "begins with whsec_"}},
		{"wrong type of push secrets", "[[queue]]\nname = \"a\"\npush_secrets = \"new\"\n", []string{"line 3", "queue.push_secrets", "a list of strings"}},
		{"a push status", "[[queue]]\nname = \"a\"\npush_permanent = [429]\n", []string{"quorate.toml:3", "push_permanent", "429"}},
		{"burst without a rate", "[[queue]]\nname = \"a\"\nburst = 2\n", []string{"quorate.toml:3", "rate"}},
		{"rate that is no number", "[[queue]]\nname = \"a\"\nrate = \"10/s\"\n", []string{"line 3"}},
		{"declared twice", "[[queue]]\nname = \"a\"\n[[queue]]\nname = \"a\"\n", []string{"quorate.toml:4", "quorate.toml:2", "once"}},
		{"schedule without a queue", "[[schedule]]\nname = \"a\"\ncron = \"@daily\"\n", []string{"quorate.toml:1", "queue"}},
		{"bad cron", "[[schedule]]\nname = \"a\"\nqueue = \"q\"\ncron = \"61 * * * *\"\n", []string{"quorate.toml:4", "five fields"}},
		{"no such time", "[[schedule]]\nname = \"a\"\nqueue = \"q\"\ncron = \"0 0 30 2 *\"\n", []string{"quorate.toml:4", "five years"}},
		{"bad zone", "[[schedule]]\nname = \"a\"\nqueue = \"q\"\ncron = \"@daily\"\nzone = \"Atlantis\"\n", []string{"quorate.toml:5", "Europe/Berlin"}},
		{"bad policy", "[[schedule]]\nname = \"a\"\nqueue = \"q\"\ncron = \"@daily\"\nmissed = \"twice\"\n", []string{"quorate.toml:5", "skip"}},
		{"bad priority", "[[schedule]]\nname = \"a\"\nqueue = \"q\"\ncron = \"@daily\"\npriority = 300\n", []string{"quorate.toml:5", "0 to 9"}},
		{"body too large", "[limits]\nmax_message_bytes = 3\n[[schedule]]\nname = \"a\"\nqueue = \"q\"\ncron = \"@daily\"\nbody = \"four\"\n", []string{"quorate.toml:7", "max_message_bytes"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := resolveWith(t, tc.file, nil, nil)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
}

// safeBuffer is a log that is read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// serveWith runs `quorate serve` with a configuration until stop is called.
func serveWith(t *testing.T, file string, ports [3]string) (log *safeBuffer, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log = &safeBuffer{}
	done := make(chan int, 1)
	go func() {
		done <- execute(ctx, []string{"serve", "--config", file, "--data-dir", filepath.Join(filepath.Dir(file), "data"),
			"--client-addr", ports[0], "--raft-addr", ports[1], "--gossip-addr", ports[2]}, strings.NewReader(""), log, log)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("serve ended with %d: %s", code, log)
		}
	})
	t.Cleanup(stop)
	await(t, "ready", func() bool {
		res, err := http.Get("http://" + ports[0] + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	}, log)
	return log, stop
}

func await(t *testing.T, what string, ok func() bool, log fmt.Stringer) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not %s after 30 s: %s", what, log)
		}
	}
}

// What is declared is made at the first start, left alone at the second, updated when the file has changed, and what was
// changed by hand shows in the comparison and is put right by the next start.
func TestDeclaredAreApplied(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "quorate.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(declaredFile)
	ports := freePorts(t)
	addr := ports[0]
	same := func() bool {
		code, _, _ := cliRun(t, addr, "", "config", "diff", "--config", file)
		return code == 0
	}

	log, stop := serveWith(t, file, ports)
	await(t, "as declared", same, log)
	if out := must(t, addr, "", "config", "diff", "--config", file); out != "nothing differs\n" {
		t.Errorf("diff without differences: %q", out)
	}
	if out := must(t, addr, "", "config", "diff", "--config", file, "-o", "json"); out != "[]\n" {
		t.Errorf("diff without differences as JSON: %q", out)
	}
	if out := must(t, addr, "", "queue", "show", "webhooks"); !strings.Contains(out, "per_key") || !strings.Contains(out, "*7") {
		t.Errorf("webhooks: %s", out)
	}
	out := must(t, addr, "", "schedule", "show", "nightly")
	for _, w := range []string{"0 3 * * *", "Europe/Berlin", "once", "all of it", "a=1", "schedule:1s,2s", "lost/nightly", `["a/b"]`} {
		if !strings.Contains(out, w) {
			t.Errorf("nightly does not show %q: %s", w, out)
		}
	}
	must(t, addr, "", "queue", "pause", "plain")
	must(t, addr, "", "queue", "set", "plain", "--max-dead", "11")
	must(t, addr, "", "schedule", "set", "nightly", "--cron", "0 5 * * *")
	code, out, errs := cliRun(t, addr, "", "config", "diff", "--config", file)
	if code != exitFailed || !strings.Contains(out, "max_dead") || !strings.Contains(out, "0 5 * * *") || !strings.Contains(errs, "2 values") {
		t.Errorf("diff ended with %d: %s %s", code, out, errs)
	}
	stop()

	applied := func(n int) func() bool {
		return func() bool { return same() && strings.Count(log.String(), " applied") >= n }
	}
	log, stop = serveWith(t, file, ports)
	await(t, "as declared", applied(2), log)
	if text := log.String(); !strings.Contains(text, "max_dead: 11") || strings.Contains(text, "queue=webhooks") {
		t.Errorf("the second start should change plain and nightly alone: %s", text)
	}
	stop()

	write(strings.Replace(declaredFile, "max_dead = 10", "max_dead = 20", 1))
	log, stop = serveWith(t, file, ports)
	await(t, "as declared", applied(1), log)
	if text := log.String(); strings.Count(text, " applied") != 1 || !strings.Contains(text, "max_dead: 10") {
		t.Errorf("the third start should change plain alone: %s", text)
	}
	if out := must(t, addr, "", "queue", "show", "plain", "-o", "json"); !strings.Contains(out, `"max_dead": 20`) || !strings.Contains(out, `"paused": true`) {
		t.Errorf("plain: %s", out)
	}
	stop()
}

// A node that comes to lead again reports what has been changed and leaves it as it is.
func TestDriftIsReported(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	log := &safeBuffer{}
	var leads atomic.Bool
	ctx, stop := context.WithCancel(context.Background())
	kept := make(chan struct{})
	d := declarations{queues: []declaredQueue{{Name: "q", MaxDead: 10}}}
	go func() {
		defer close(kept)
		d.keep(ctx, slog.New(slog.NewTextHandler(log, nil)), addr, leads.Load)
	}()
	leads.Store(true)
	await(t, "applied", func() bool { return strings.Contains(log.String(), "applied") }, log)
	must(t, addr, "", "queue", "set", "q", "--max-dead", "99")
	leads.Store(false)
	await(t, "reported", func() bool {
		leads.Store(!leads.Load()) // it looks now and then, and has to see both
		return strings.Contains(log.String(), "queue q: max_dead is 99, declared 10")
	}, log)
	stop()
	<-kept
	if out := must(t, addr, "", "queue", "show", "q"); !strings.Contains(out, "99") {
		t.Errorf("what was set by hand is gone: %s", out)
	}
}

// Every option that a queue shows can be declared.
func TestEveryOptionCanBeDeclared(t *testing.T) {
	t.Parallel()
	can := map[string]bool{}
	r := reflect.TypeFor[declaredQueue]()
	for i := range r.NumField() {
		can[r.Field(i).Tag.Get("toml")] = true
	}
	for key := range optionsJSON(client.QueueOptions{}) {
		if !can[key] || !strings.Contains(declaredQueueKeys, key) {
			t.Errorf("%s cannot be declared, or is not among the known keys", key)
		}
	}
}

// Everything that a schedule and its message can have can be declared, but for what schedules refuse; and what is not as declared is
// found by its key.
func TestEveryPartOfAScheduleCanBeDeclared(t *testing.T) {
	t.Parallel()
	const base = "[[schedule]]\nname = \"a\"\n"
	read := func(lines string) client.Schedule {
		t.Helper()
		r, err := resolveWith(t, base+lines, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", lines, err)
		}
		return r.Schedules[0].schedule()
	}
	plain := map[string]string{"queue": `"q"`, "cron": `"@daily"`}
	declare := func(key, value string) string {
		lines := ""
		for k, v := range plain {
			if k != key {
				lines += k + " = " + v + "\n"
			}
		}
		if key != "" {
			lines += key + " = " + value + "\n"
		}
		return lines
	}
	without := read(declare("", ""))
	set := map[string]bool{}
	for key, value := range map[string]string{
		"queue": `"other"`, "cron": `"@hourly"`, "zone": `"Europe/Berlin"`, "jitter_ms": "5", "missed": `"all"`, "paused": "true", "body": `"b"`,
		"kind": `"k"`, "content_type": `"a/b"`, "priority": "7", "key": `"k"`, "headers": `{ a = "1" }`, "ttl_ms": "9", "timeout_ms": "8",
		"retry": `{ kind = "fixed" }`, "keys_if_undelivered": `[["a b"], ["c"]]`,
	} {
		set[key] = true
		with := read(declare(key, value))
		ds := compare("schedule", "a", declaredValues(with), declaredValues(without))
		if len(ds) != 1 || ds[0].key != key {
			t.Errorf("%s: found %v", key, ds)
		}
		if ds := compare("schedule", "a", declaredValues(with), declaredValues(with)); len(ds) != 0 {
			t.Errorf("%s: the same, found %v", key, ds)
		}
	}
	for _, key := range strings.Split(declaredScheduleKeys, ", ") {
		if !set[key] && key != "name" {
			t.Errorf("%s can be declared and is not tried here", key)
		}
	}
	key := func(field string) string {
		return map[string]string{
			"Jitter": "jitter_ms", "ContentType": "content_type", "TTL": "ttl_ms", "Timeout": "timeout_ms", "KeysIfUndelivered": "keys_if_undelivered",
		}[field]
	}
	refused := map[string]bool{"TaskID": true, "DedupKey": true, "Delay": true, "EnqueueAt": true, "Batch": true}
	for _, typ := range []reflect.Type{reflect.TypeFor[client.Schedule](), reflect.TypeFor[client.Message]()} {
		for i := range typ.NumField() {
			name := typ.Field(i).Name
			if name == "Name" || name == "Message" || refused[name] {
				continue
			}
			if k := key(name); !set[k] && !set[strings.ToLower(name)] {
				t.Errorf("%s.%s cannot be declared", typ.Name(), name)
			}
		}
	}
	// One key of two words is not two keys of one.
	one, two := read(declare("keys_if_undelivered", `[["a b"]]`)), read(declare("keys_if_undelivered", `[["a", "b"]]`))
	if ds := compare("schedule", "a", declaredValues(one), declaredValues(two)); len(ds) != 1 {
		t.Errorf("found %v", ds)
	}
}
