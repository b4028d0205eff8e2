package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

// hookFile declares hooks of several kinds; %s is the folder of their files.
const hookFile = `node_id = "h"

[[queue]]
name = "webhooks"

[[hook]]
name        = "pagerduty"
queue       = "webhooks"
kind        = "incident"
verify      = { scheme = "hmac-sha256", header = "X-PagerDuty-Signature", prefix = "v1=", secret_env = "PAGERDUTY_WEBHOOK_SECRET" }
idempotency = { header = "X-Webhook-Id" }
keep_headers = ["User-Agent"]

[[hook]]
name           = "stripe"
queue          = "payments"
max_body_bytes = 65536
schema_file    = "%[1]s/schema.json"
[hook.verify]
scheme       = "stripe"
tolerance_ms = 60000
secret_files = ["%[1]s/new", "%[1]s/old"]
[hook.idempotency]
pointer = "/id"
`

// writeHookFiles writes hookFile and what it names.
func writeHookFiles(t *testing.T) (file string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"new": "whsec_new\n", "old": "whsec_old", "schema.json": `{"required":["id"]}`, "quorate.toml": fmt.Sprintf(hookFile, dir)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "quorate.toml")
}

func TestHookErrors(t *testing.T) {
	t.Parallel()
	const good = "[[hook]]\nname = \"a\"\nqueue = \"q\"\nverify = { scheme = \"github\", secret_env = \"S\" }\n"
	if _, err := resolveWith(t, good, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, file string
		want       []string
	}{
		{"unknown key", good + "secret = \"x\"\n", []string{"line 5", "hook.secret", "keep_headers"}},
		{"a secret between braces", strings.Replace(good, "secret_env", "secret", 1), []string{"line 4", "secret", "of verify: scheme", "secret_env"}},
		{"unknown key of verify", "[[hook]]\nname = \"a\"\n[hook.verify]\nsecret = \"x\"\n", []string{"line 4", "hook.verify.secret", "secret_env"}},
		{"unknown key of idempotency", good + "[hook.idempotency]\nbody = \"x\"\n", []string{"line 6", "hook.idempotency.body", "pointer"}},
		{"unknown scheme", strings.Replace(good, "github", "sha1", 1), []string{"quorate.toml:4", `[[hook]] "a"`, "github, pagerduty, shopify, slack, stripe, hmac-sha256"}},
		{"no secret", strings.Replace(good, "secret_env", "header", 1), []string{"quorate.toml:4", "verify"}},
		{"nothing that signs", "[[hook]]\nname = \"a\"\nqueue = \"q\"\nverify = { scheme = \"github\" }\n", []string{"quorate.toml:4", "no secret", "secret_env"}},
		{"no verify", "[[hook]]\nname = \"a\"\nqueue = \"q\"\n", []string{"quorate.toml:1", "hmac-sha256"}},
		{"no queue", strings.Replace(good, "queue", "kind", 1), []string{"quorate.toml:", "queue"}},
		{"a pointer that is none", good + "idempotency = { pointer = \"id\" }\n", []string{"quorate.toml:5", "/event/id"}},
		{"a body larger than messages", good + "max_body_bytes = 2000000\n", []string{"quorate.toml:5", "limits.max_message_bytes"}},
		{"wrong type of headers", good + "keep_headers = \"X\"\n", []string{"line 5", "hook.keep_headers", "a list of strings"}},
		{"wrong type of verify", "[[hook]]\nname = \"a\"\nverify = \"github\"\n", []string{"line 3", "a table [hook.verify] of scheme"}},
		{"wrong type of a tolerance", "[[hook]]\nname = \"a\"\n[hook.verify]\ntolerance_ms = \"5m\"\n", []string{"line 4", "whole number"}},
		{"no table", "hook = 3\n", []string{"line 1", "[[hook]]"}},
		{"twice", good + good, []string{"quorate.toml:6", "quorate.toml:2", "once"}},
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

// Secrets and schemas come from where the file says, or the node does not start; what is wrong is said without them.
func TestHookSecrets(t *testing.T) {
	t.Parallel()
	file := writeHookFiles(t)
	dir := filepath.Dir(file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := resolveWith(t, string(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PAGERDUTY_WEBHOOK_SECRET": "pd secret"}
	get := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	hs, secrets, err := r.hooks(get)
	if err != nil || len(hs) != 2 || string(secrets["pagerduty"][0]) != "pd secret" || fmt.Sprintf("%s", secrets["stripe"]) != "[whsec_new whsec_old]" || len(hs[1].Schema) == 0 {
		t.Fatalf("%v: %+v", err, hs)
	}
	for _, tc := range []struct {
		name, want string
		do         func()
	}{
		{"a variable that is empty", "PAGERDUTY_WEBHOOK_SECRET", func() { env["PAGERDUTY_WEBHOOK_SECRET"] = "" }},
		{"a variable that is not there", "PAGERDUTY_WEBHOOK_SECRET", func() { delete(env, "PAGERDUTY_WEBHOOK_SECRET") }},
		{"a file that is not there", "old", func() { os.Remove(filepath.Join(dir, "old")) }},
		{"a file that is empty", "is empty", func() { os.WriteFile(filepath.Join(dir, "old"), []byte("\n"), 0o600) }},
		{"a folder", "is no file", func() { os.Remove(filepath.Join(dir, "old")); os.Mkdir(filepath.Join(dir, "old"), 0o700) }},
		{"a large file", "at most 65536", func() {
			os.Remove(filepath.Join(dir, "old"))
			os.WriteFile(filepath.Join(dir, "old"), make([]byte, 65537), 0o600)
		}},
		{"no schema", "schema.json", func() {
			os.WriteFile(filepath.Join(dir, "old"), []byte("whsec_old"), 0o600)
			os.Remove(filepath.Join(dir, "schema.json"))
		}},
	} {
		env["PAGERDUTY_WEBHOOK_SECRET"] = "pd secret"
		tc.do()
		_, _, err := r.hooks(get)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "[[hook]]") || strings.Contains(err.Error(), "whsec") || strings.Contains(err.Error(), "pd secret") {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// A node with hooks from its file: a webhook is enqueued, worked on, and answered with its result when it comes again; what the node
// shows and logs has no secret in it.
func TestHooksAreServed(t *testing.T) {
	const secret = "pd-secret-that-nobody-may-see"
	t.Setenv("PAGERDUTY_WEBHOOK_SECRET", secret)
	file := writeHookFiles(t)
	free := freePorts(t)
	addr := free[0]
	log, stop := serveWith(t, file, free)
	post := func(body, key, secret string) (int, map[string]any) {
		t.Helper()
		m := hmac.New(sha256.New, []byte(secret))
		m.Write([]byte(body))
		req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/hook/pagerduty", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-PagerDuty-Signature", "v1="+strings.Repeat("0", 64)+",v1="+hex.EncodeToString(m.Sum(nil)))
		req.Header.Set("X-Webhook-Id", key)
		req.Header.Set("User-Agent", "PagerDuty-Webhook/V3.0")
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		var v map[string]any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		return resp.StatusCode, v
	}
	status, v := post(`{"n":1}`, "one", secret)
	if status != 202 || v["queued"] != true || v["idempotency_key"] != "one" {
		t.Fatalf("%d %v", status, v)
	}
	id := v["id"].(string)
	if status, v := post(`{"n":1}`, "one", secret); status != 202 || v["id"] != id || v["duplicate"] != true || v["queued"] != true {
		t.Errorf("again, while it waits: %d %v", status, v)
	}
	if status, v := post(`{"n":2}`, "one", secret); status != 409 || v["id"] != id {
		t.Errorf("another body under its key: %d %v", status, v)
	}
	if status, v := post(`{"n":1}`, "one", "guessed"); status != 401 {
		t.Errorf("of another: %d %v", status, v)
	}
	if out := must(t, addr, "", "queue", "peek", "webhooks", "-o", "json"); !strings.Contains(out, "hook_source") || !strings.Contains(out, "PagerDuty-Webhook/V3.0") || !strings.Contains(out, "incident") {
		t.Errorf("the message: %s", out)
	}
	ackNext := func(stdin string, args ...string) {
		t.Helper()
		var leased []struct{ Token string }
		if err := json.Unmarshal([]byte(must(t, addr, "", "lease", "webhooks", "-o", "json")), &leased); err != nil || len(leased) != 1 {
			t.Fatalf("%v, %v", leased, err)
		}
		must(t, addr, stdin, append([]string{"ack", leased[0].Token}, args...)...)
	}
	ackNext(`{"n":1}`, "--result", "-")
	status, v = post(`{"n":1}`, "one", secret)
	if r, _ := v["result"].(map[string]any); status != 200 || v["id"] != id || v["queued"] != false || r["output"] != "eyJuIjoxfQ==" || r["output_encoding"] != "base64" || r["worker"] != nil {
		t.Errorf("again, when it is done: %d %v", status, v)
	}
	if status, v = post(`{"n":3}`, "three", secret); status != 202 {
		t.Fatalf("%d %v", status, v)
	}
	ackNext("")
	if status, v := post(`{"n":3}`, "three", secret); status != 200 || v["queued"] != false || v["status"] != wire.StatusSucceeded || v["result"] != nil {
		t.Errorf("again, when it was acked without a result: %d %v", status, v)
	}
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.Contains(string(metrics), `quorate_hook_requests_total{hook="pagerduty",status="202"} 3`) {
		t.Errorf("metrics: %s", metrics)
	}
	stop()
	code, out, errs := cliRun(t, addr, "", "serve", "--config", file, "--print-config")
	if code != 0 {
		t.Errorf("print-config ended with %d: %s", code, errs)
	}
	for what, text := range map[string]string{"the log": log.String(), "metrics": string(metrics), "print-config": out + errs} {
		if strings.Contains(text, secret) || strings.Contains(text, "whsec_") {
			t.Errorf("a secret is in %s: %s", what, text)
		}
	}
}

// What the SDK says of a failed enqueue, as the door hears it.
func TestFaultFor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err     error
		code    wire.Code
		unknown bool
		id      string
	}{
		{client.ErrUnavailable, wire.CodeNoLeader, false, ""},
		{client.ErrClosed, wire.CodeNoLeader, false, ""},
		{&client.Error{Code: wire.CodeQueueFull, Retry: true}, wire.CodeQueueFull, false, ""},
		{&client.Error{Code: wire.CodeTimeout, Unknown: true, Retry: true}, wire.CodeTimeout, true, ""},
		{fmt.Errorf("wrapped: %w", &client.Error{Code: wire.CodeAlreadyExists, ID: "first"}), wire.CodeAlreadyExists, false, "first"},
	} {
		if f := faultFor(tc.err); f.Code != tc.code || f.Unknown != tc.unknown || f.ID != tc.id {
			t.Errorf("%v: %+v", tc.err, f)
		}
	}
}
