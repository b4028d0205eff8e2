package main

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// Every counter of a queue that is not zero is shown, as text and as JSON: whatever is added to QueueInfo later too.
func TestStatsShowEveryCounter(t *testing.T) {
	t.Parallel()
	q := client.QueueInfo{Name: "q", Totals: map[string]int64{"enqueued": 999, "refused_max_depth": 998}}
	v := reflect.ValueOf(&q).Elem()
	want := map[string][2]string{"Totals": {"999", "999"}, "Totals refused": {"refused max depth in all  998", "refused_max_depth"}}
	for i := range v.NumField() {
		name, n := v.Type().Field(i).Name, int64(101+i)
		switch f := v.Field(i); f.Interface().(type) {
		case int64:
			f.SetInt(n)
			want[name] = [2]string{fmt.Sprint(n), fmt.Sprint(n)}
		case time.Duration:
			f.SetInt(n * int64(time.Second))
			want[name] = [2]string{time.Duration(f.Int()).String(), fmt.Sprint(n)} // in seconds or ms
		case []client.Holdup:
			f.Set(reflect.ValueOf([]client.Holdup{{Reason: "rate_limited", Text: "words", Until: time.UnixMilli(1_700_000_000_000)}}))
			want[name] = [2]string{"words; until 2023", "1700000000000"}
		case string, client.QueueOptions, map[string]int64:
		default:
			t.Errorf("%s is of a type that this test does not know", name)
		}
	}
	for i, output := range []string{"table", "json"} {
		var out bytes.Buffer
		c := &cli{stdout: &out}
		c.output = output
		if err := c.printStats(q, false); err != nil {
			t.Fatal(err)
		}
		for name, texts := range want {
			if !strings.Contains(out.String(), texts[i]) {
				t.Errorf("%s: %s is not shown (%q): %s", output, name, texts[i], out.String())
			}
		}
	}
}

// A queue whose keys are held back says so, and one where nothing is shows no empty lines.
func TestStatsOfKeys(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "q", "--rate-per-key", "0.001", "--max-in-flight-per-key", "1")
	if out := must(t, addr, "", "queue", "stats", "q"); strings.Contains(out, "parked") || strings.Contains(out, "key debts") {
		t.Errorf("nothing is parked: %s", out)
	}
	for range 3 {
		must(t, addr, "", "enqueue", "q", "x", "--key", "k")
	}
	must(t, addr, "", "lease", "q")
	out := must(t, addr, "", "queue", "stats", "q")
	shown := map[string]bool{}
	for _, line := range strings.Split(out, "\n") {
		shown[strings.Join(strings.Fields(line), " ")] = true
	}
	if !shown["parked 2"] || !shown["key debts 1"] {
		t.Errorf("no keys: %s", out)
	}
	if out := must(t, addr, "", "queue", "stats", "q", "-o", "json"); !strings.Contains(out, `"parked": 2`) || !strings.Contains(out, `"key_debts": 1`) {
		t.Errorf("json: %s", out)
	}
}

// Why a queue does not move is said by stats, show and list, and until when.
func TestQueueSaysWhy(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "q", "--rate", "0.001", "--burst", "1")
	must(t, addr, "", "enqueue", "q", "x")
	must(t, addr, "", "enqueue", "q", "y")
	must(t, addr, "", "lease", "q")
	must(t, addr, "", "queue", "pause", "q")
	for _, verb := range []string{"stats", "show"} {
		out := must(t, addr, "", "queue", verb, "q")
		for _, want := range []string{"status ", "held", "the queue is paused", "0.001 a second is used up; until 20", "no subscription"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s does not say %q: %s", verb, want, out)
			}
		}
		out = must(t, addr, "", "queue", verb, "q", "-o", "json")
		if !strings.Contains(out, `"reason": "paused"`) || !strings.Contains(out, `"until": `) || !strings.Contains(out, `"messages_per_minute": `) {
			t.Errorf("%s as JSON: %s", verb, out)
		}
	}
	if out := must(t, addr, "", "queue", "list"); !strings.Contains(out, "held: paused, rate_limited, no_consumers") {
		t.Errorf("list: %s", out)
	}
}
