package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
)

// readmeFile is the README, as seen from this package.
const readmeFile = "../../README.md"

// snippet is a curl line of the README, with the assignments that stand before it in its block.
type snippet struct {
	line   int // of the file, from 1
	script string
	curl   string // the line alone
	stream bool   // curl -N: it ends when it is ended
}

// readmeCurls finds the README's curl lines in their order. Lines of a block are those that are indented by four; a backslash at the end joins them.
func readmeCurls(t *testing.T, text string) (all []snippet) {
	t.Helper()
	assignment := regexp.MustCompile(`^[a-z_]+=`)
	before, joined, at := "", "", 0
	for i, line := range strings.Split(text, "\n") {
		line, ok := strings.CutPrefix(line, "    ")
		if !ok {
			before, joined = "", ""
			continue
		}
		if joined == "" {
			at = i + 1
		}
		if rest, more := strings.CutSuffix(line, `\`); more {
			joined += rest
			continue
		}
		line, joined = joined+strings.TrimSpace(line), ""
		switch {
		case assignment.MatchString(line):
			before += line + "\n"
		case strings.HasPrefix(line, "curl "):
			all = append(all, snippet{line: at, script: before + line, curl: line, stream: strings.HasPrefix(line, "curl -N ")})
		}
	}
	return all
}

// shell runs scripts against one node as a user's shell would.
type shell struct {
	t    *testing.T
	addr string
	home string // where curl finds its configuration
	vars map[string]string
}

// run gives what a script writes. Of a stream it is all up to the end of the first event.
func (s *shell) run(sn snippet) (string, error) {
	script := strings.ReplaceAll(sn.script, "127.0.0.1:7340", s.addr)
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", script)
	cmd.Env = append(os.Environ(), "CURL_HOME="+s.home)
	for name, v := range s.vars {
		cmd.Env = append(cmd.Env, name+"="+v)
	}
	// The shell's children too end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var text []byte
	ended := false // by this side, which has what it wants
	for b := make([]byte, 4096); ; {
		n, err := out.Read(b)
		text = append(text, b[:n]...)
		if sn.stream && !ended && bytes.Contains(text, []byte("\ndata: ")) && bytes.HasSuffix(text, []byte("\n\n")) {
			ended = true
			cancel()
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil && !ended {
		return string(text), fmt.Errorf("%w: %s", err, errs.String())
	}
	return string(text), nil
}

// field is a string in a JSON text, as jq finds it: through a reader that has no whole numbers beyond 2^53, where there is one. (C63)
func (s *shell) field(text, path string) string {
	s.t.Helper()
	var v any
	if jq, err := exec.LookPath("jq"); err == nil {
		cmd := exec.CommandContext(s.t.Context(), jq, path)
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.Output()
		if err != nil {
			s.t.Fatalf("jq %s of %s: %v", path, text, err)
		}
		if err := json.Unmarshal(out, &v); err != nil {
			s.t.Fatalf("jq %s: %q", path, out)
		}
	} else {
		m := regexp.MustCompile(`"` + path[strings.LastIndexByte(path, '.')+1:] + `":"([^"]+)"`).FindStringSubmatch(text)
		if m == nil {
			s.t.Fatalf("no %s in %s", path, text)
		}
		v = m[1]
	}
	str, ok := v.(string)
	if !ok {
		s.t.Fatalf("%s of %s is %v", path, text, v)
	}
	return str
}

// post is one request of the test's own, for what a line of the README takes for granted.
func (s *shell) post(path, body string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(within(s.t, 30*time.Second), http.MethodPost, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		s.t.Fatalf("POST %s: %s %s %v", path, resp.Status, b, err)
	}
	return string(b)
}

// Every curl line of the README, as it stands there, run by a shell at a follower of three nodes that have the README's hooks: each ends well,
// and says what the README says of it.
func TestReadmeCurl(t *testing.T) {
	for _, program := range []string{"sh", "curl", "openssl", "sed"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not here", program)
		}
	}
	b, err := os.ReadFile(readmeFile)
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	hooks := regexp.MustCompile("(?s)```toml\n(\\[\\[hook\\]\\].*?)```").FindStringSubmatch(readme)
	if hooks == nil {
		t.Fatal("the README declares no hook")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"quorate.toml": hooks[1], ".curlrc": "silent\nshow-error\nfail-with-body\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const secret = "GITHUB_WEBHOOK_SECRET=what signs them"
	c := startWith(t, proc.Config{Binary: quorateBin, Nodes: 3, Dir: t.TempDir(), Args: []string{"--config", filepath.Join(dir, "quorate.toml")}, Env: []string{secret}})
	cl := open(t, c.Addrs()...)
	whole(t, cl, 3)
	s := &shell{t: t, addr: follower(t, c).ClientAddr, home: dir, vars: map[string]string{"GITHUB_WEBHOOK_SECRET": strings.TrimPrefix(secret, "GITHUB_WEBHOOK_SECRET=")}}

	id := "" // of a message of the one queue
	tried := 0
	for _, sn := range readmeCurls(t, readme) {
		on := func(part string) bool { return strings.Contains(sn.curl, part) }
		// What a line takes for granted.
		switch {
		case on("/queue/ack") || on("/queue/dlq/ID"):
			if on("/queue/dlq/ID") {
				s.post("/queue/enqueue", `{"value":1,"options":{"backoffSchedule":[]}}`)
				id = s.field(s.post("/v1/queues/default/lease", `{"wait_ms":5000}`), ".messages[0].id")
				s.post("/queue/nack", `{"id":"`+id+`"}`)
			}
			sn.script = strings.ReplaceAll(sn.script, "ID", id)
		}
		var out string
		var err error
		for end := time.Now().Add(30 * time.Second); ; { // hooks may still be finding their leader
			out, err = s.run(sn)
			if err == nil || !strings.Contains(out, `"status":503`) || time.Now().After(end) {
				break
			}
			time.Sleep(20 * time.Millisecond) // as a user does that was told to try again
		}
		if err != nil {
			t.Fatalf("README:%d: %s\n%v\n%s", sn.line, sn.script, err, out)
		}
		t.Logf("README:%d: %s\n\t%.200s", sn.line, sn.curl, strings.TrimSpace(out))
		tried++
		// What it says of them, and what later lines go on from.
		want := ""
		switch {
		case on("/lease "):
			s.vars["TOKEN"] = s.field(out, ".messages[0].token")
		case on("/queue/poll"):
			id = s.field(out, ".message.id")
			want = `"value":{"hello":"world"}`
		case on("/queue/ack"), on("/requeue"):
			want = `"ok":true`
		case on("/v1/queues/hello/messages"):
			want = `"duplicate":false`
		case on("/stats"):
			want = `"pending":`
		case on("/hook/"):
			want = `"queued":true`
		case on("/listen"):
			want = "event: message\n"
		case on("/results/stream"):
			want = "event: result\n"
		case on("format=csv"):
			want = "original_id"
		}
		if !strings.Contains(out, want) {
			t.Errorf("README:%d: %s\nsays %s, want %s", sn.line, sn.curl, out, want)
		}
	}
	if tried < 12 {
		t.Errorf("%d curl lines were found", tried)
	}
}
