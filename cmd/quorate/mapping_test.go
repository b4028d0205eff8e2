package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Messages go from queue to queue by expressions, are pushed as expressions make them, and come in only as schemas let them.
func TestMapping(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	schema := filepath.Join(t.TempDir(), "order.json")
	if err := os.WriteFile(schema, []byte("{\n\t\"type\": \"object\",\r\n  \"required\": [\"id\"]\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, addr, "", "queue", "create", "bills")
	must(t, addr, "", "queue", "create", "orders", "--schema", schema, "--map-to", `bills=body.paid ? send({id: body.id}, {kind: "bill"}) : nil`)
	code, _, errs := cliRun(t, addr, "", "enqueue", "orders", `{"nr":1}`)
	if code != exitFailed || !strings.Contains(errs, `the schema of queue "orders"`) || !strings.Contains(errs, "id") {
		t.Errorf("exit %d, %s", code, errs)
	}
	must(t, addr, "", "enqueue", "orders", `{"id":7,"paid":true}`)
	must(t, addr, "", "enqueue", "orders", `{"id":8,"paid":false}`)
	must(t, addr, "", "enqueue", "orders", `{"id":9,"paid":"maybe"}`, "--task-id", "t-9")
	var out string
	await(t, "a bill", func() bool {
		out = must(t, addr, "", "queue", "peek", "bills", "-o", "json")
		return strings.Contains(out, base64.StdEncoding.EncodeToString([]byte(`{"id":7}`)))
	}, nothing{})
	if !strings.Contains(out, `"bill"`) || strings.Count(out, `"task_id"`) != 1 {
		t.Errorf("bills: %s", out)
	}
	await(t, "a dead letter", func() bool {
		out = must(t, addr, "", "dlq", "list", "orders", "--reason", "mapping", "-o", "json")
		return strings.Contains(out, "map_to: 1:")
	}, nothing{})
	if !strings.Contains(out, `"t-9"`) {
		t.Errorf("dead letters: %s", out)
	}
	show := decode[struct {
		Options map[string]any
		Stats   map[string]any
	}](t, must(t, addr, "", "queue", "show", "orders", "-o", "json"))
	to, _ := show.Options["map_to"].(map[string]any)
	if to["queue"] != "bills" || !strings.Contains(fmt.Sprint(to["expression"]), "body.paid") || show.Stats["mapping"] != "mapping" || !strings.Contains(fmt.Sprint(show.Options["schema"]), "required") {
		t.Errorf("show: %v", show)
	}
	out = must(t, addr, "", "queue", "show", "orders")
	column := strings.Repeat(" ", strings.Index(out, "orders")) // where the values begin: the name comes first
	for _, want := range []string{"map-to", "bills=body.paid", "\nmapping" + column[len("mapping"):] + "at work\n",
		"\nschema" + column[len("schema"):] + "{\n" + column + `    "type": "object",` + "\n" + column + `  "required": ["id"]` + "\n" + column + "}\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("show without %q: %s", want, out)
		}
	}
	if out := must(t, addr, "", "queue", "stats", "orders"); !strings.Contains(out, "at work\n") {
		t.Errorf("stats: %s", out)
	}
	for _, want := range []string{`quorate_mapped_messages_total{outcome="mapped",queue="orders"} 1`, `quorate_mapped_messages_total{outcome="nothing",queue="orders"} 1`,
		`quorate_mapped_messages_total{outcome="failed",queue="orders"} 1`, "quorate_mapped_queues 1"} {
		await(t, want, func() bool { return strings.Contains(metricsOf(t, addr), want) }, nothing{})
	}
	// Mended, the dead letter goes its way.
	must(t, addr, "", "queue", "set", "orders", "--map-to", `bills=body.paid == true ? {id: body.id} : {id: body.id, open: true}`)
	must(t, addr, "", "dlq", "requeue", "orders", "--all")
	await(t, "the mended bill", func() bool {
		out = must(t, addr, "", "queue", "peek", "bills", "-o", "json")
		return strings.Contains(out, base64.StdEncoding.EncodeToString([]byte(`{"id":9,"open":true}`)))
	}, nothing{})
	// Taken away, messages wait for workers again.
	must(t, addr, "", "queue", "set", "orders", "--map-to", "", "--schema", "")
	must(t, addr, "", "enqueue", "orders", "anything")
	await(t, "the message", func() bool { // the mapper may have had it for a moment, and given it back
		out = must(t, addr, "", "lease", "orders", "-o", "json")
		return strings.Contains(out, base64.StdEncoding.EncodeToString([]byte("anything")))
	}, nothing{})
	for _, c := range []struct{ args, want string }{
		{"--map-to bills", "QUEUE=EXPRESSION"}, {"--map-to =body", "QUEUE=EXPRESSION"}, {"--map-to bills=now()", "1:1"}, {"--map body.", "map"},
		{"--map-to orders=body", "itself"}, {"--schema /nowhere", "--schema"},
	} {
		code, _, errs := cliRun(t, addr, "", append([]string{"queue", "set", "orders"}, strings.Fields(c.args)...)...)
		if code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %q", c.args, code, errs)
		}
	}
}

// What is pushed is what the map makes of a message; one that cannot be mapped is a dead letter with its place.
func TestPushIsMapped(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	url, got := pushEndpoint(t)
	must(t, addr, "", "queue", "create", "q", "--push-url", url, "--map", "{id: body.order.id, try: message.attempt}")
	must(t, addr, "", "enqueue", "q", `{"order":{"id":17}}`)
	if r := nextPush(t, got); r.body != `{"id":17,"try":1}` || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("pushed %+v", r)
	}
	must(t, addr, "", "enqueue", "q", `{"order":"x"}`)
	var out string
	await(t, "a dead letter", func() bool {
		out = must(t, addr, "", "dlq", "list", "q", "-o", "json")
		return strings.Contains(out, `"mapping"`)
	}, nothing{})
	if !strings.Contains(out, "map: 1:") || len(got) != 0 {
		t.Errorf("dead letters %s, pushed %d", out, len(got))
	}
	await(t, "the counts", func() bool {
		m := metricsOf(t, addr)
		return strings.Contains(m, `quorate_mapped_messages_total{outcome="mapped",queue="q"} 1`) && strings.Contains(m, `quorate_mapped_messages_total{outcome="failed",queue="q"} 1`)
	}, nothing{})
}

// A schema is a file, or itself where it begins with a brace.
func TestSchemaInline(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	must(t, addr, "", "queue", "create", "q", "--schema", "\n {\"type\":\"object\"}")
	if code, _, errs := cliRun(t, addr, "", "enqueue", "q", "17"); code != exitFailed || !strings.Contains(errs, `does not fit the schema of queue "q"`) {
		t.Errorf("exit %d, %s", code, errs)
	}
	must(t, addr, "", "enqueue", "q", "{}")
	for _, tc := range []struct {
		name, schema string
		code         int
		want         string
	}{
		{"no such file", "order.json", exitUsage, "--schema: stat order.json: no such file or directory"},
		{"no JSON", "{type: object}", exitFailed, "--schema: invalid_argument: schema"},
		{"too long", "{" + strings.Repeat(" ", 65<<10) + "}", exitFailed, "--schema: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, _, errs := cliRun(t, addr, "", "queue", "set", "q", "--schema", tc.schema)
			if code != tc.code || !strings.Contains(errs, tc.want) {
				t.Errorf("exit %d, %.200s; want %d, %s", code, errs, tc.code, tc.want)
			}
		})
	}
	must(t, addr, "", "queue", "set", "q", "--schema", "")
	must(t, addr, "", "enqueue", "q", "17")
}
