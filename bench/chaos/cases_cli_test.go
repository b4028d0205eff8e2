package chaos

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

// ran is how a command ended.
type ran struct {
	stdout, stderr string
	code           int
}

// quorate runs the binary to its end, at most a minute.
func quorate(t *testing.T, addrs []string, args ...string) ran {
	t.Helper()
	cmd := exec.CommandContext(within(t, time.Minute), quorateBin, args...)
	cmd.Env = append(cmd.Environ(), "QUORATE_ADDR="+strings.Join(addrs, ","))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ran{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// Without a leader every command ends with exit code 5 within its time, says why on standard error and nothing on standard
// output; the node is alive and not ready. A node that starts alone is the same until the others come. (C23, C66)
func TestCommandsWithoutALeader(t *testing.T) {
	c, err := proc.New(proc.Config{Binary: quorateBin, Nodes: 3, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	lone := c.Nodes[0]
	probe := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(within(t, 20*time.Second), http.MethodGet, "http://"+lone.ClientAddr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	unready := func(t *testing.T) {
		t.Helper()
		eventually(t, 30*time.Second, "the node is alive", func(context.Context) bool { code, _ := probe("/healthz"); return code == 200 })
		eventually(t, 30*time.Second, "the node is not ready and says why", func(context.Context) bool {
			code, body := probe("/readyz")
			var r struct {
				Ready, Leader bool
				Reason        string
			}
			return code == 503 && json.Unmarshal([]byte(body), &r) == nil && !r.Ready && !r.Leader && r.Reason != ""
		})
		if code, body := probe("/metrics"); code != 200 || !strings.Contains(body, "quorate_") {
			t.Errorf("metrics answer %d", code)
		}
	}
	const id = "00000000000000000000000000"
	commands := func(t *testing.T) {
		for _, args := range [][]string{
			{"enqueue", "q", "x"}, {"lease", "q"}, {"ack", id + id}, {"nack", id + id}, {"extend", id + id}, {"release", id + id},
			{"queue", "create", "q"}, {"queue", "list"}, {"queue", "show", "q"}, {"queue", "stats", "q"}, {"queue", "peek", "q"}, {"queue", "purge", "q"}, {"queue", "delete", "q"},
			{"dlq", "list", "q"}, {"dlq", "show", "q", id}, {"dlq", "requeue", "q", id}, {"result", "get", id}, {"task", "status", id},
			{"cluster", "transfer"}, {"cluster", "remove", "n2"}, {"cluster", "verify"},
		} {
			for _, format := range []string{"table", "json"} {
				t.Run(strings.Join(args, " ")+" "+format, func(t *testing.T) {
					t.Parallel()
					r := quorate(t, []string{lone.ClientAddr}, append(args, "--call-timeout", "1s", "-o", format)...)
					if r.code != 5 || r.stdout != "" || strings.TrimSpace(r.stderr) == "" || strings.Contains(r.stderr, "goroutine ") {
						t.Errorf("exit %d, stdout %q, stderr %q; want 5 (unavailable), nothing, and why", r.code, r.stdout, r.stderr)
					}
				})
			}
		}
	}
	if err := lone.Start(); err != nil {
		t.Fatal(err)
	}
	t.Run("before the others have started", func(t *testing.T) {
		unready(t)
		if r := quorate(t, []string{lone.ClientAddr}, "enqueue", "q", "x", "--call-timeout", "1s"); r.code != 5 || r.stdout != "" {
			t.Errorf("%+v, want exit code 5", r)
		}
	})
	for _, n := range c.Nodes[1:] {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.Nodes {
		if err := n.WaitReady(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a closed pipe", func(t *testing.T) {
		for range 3 {
			if r := quorate(t, c.Addrs(), "enqueue", "q", "x"); r.code != 0 {
				t.Fatalf("%+v", r)
			}
		}
		for _, args := range [][]string{{"queue", "list"}, {"queue", "list", "-o", "json"}, {"queue", "peek", "q", "-o", "json"}, {"cluster", "status"}, {"enqueue", "q", "x"}} {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			cmd := exec.CommandContext(within(t, time.Minute), quorateBin, args...)
			cmd.Env = append(cmd.Environ(), "QUORATE_ADDR="+strings.Join(c.Addrs(), ","))
			cmd.Stdout = w
			err = cmd.Run()
			w.Close()
			if err == nil {
				t.Errorf("%v into a closed pipe ends with exit code 0", args)
			}
		}
	})
	c.Nodes[1].Kill()
	c.Nodes[2].Kill()
	t.Run("after the others have died", func(t *testing.T) {
		unready(t)
		commands(t)
	})
}

// Doors and tools on one cluster.
func TestDoors(t *testing.T) {
	c := start(t, 3)
	cl := open(t, c.Addrs()...)
	for name, test := range map[string]func(*testing.T, *proc.Cluster, *client.Client){
		"bytes come out as they went in":              bytesEverywhere,
		"ids are strings in JSON":                     idsAreStrings,
		"series go with their queues":                 seriesGo,
		"a consumer that fell silent keeps nothing":   silentConsumer,
		"a stopped worker's late ack changes nothing": stoppedWorker,
		"a drain ends on time":                        drainEnds,
		"a worker killed while it drains":             killedInDrain,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, c, cl) })
	}
}

// Bodies, results and dead letters are byte-exact at every door; an empty body is an empty body; text that is not UTF-8 is
// refused, and cut clean in error texts. (C62)
func bytesEverywhere(t *testing.T, c *proc.Cluster, cl *client.Client) {
	ctx := within(t, 3*time.Minute)
	for name, body := range map[string][]byte{
		"not UTF-8": {0xff, 0xfe, 0}, "zero": {0}, "empty": {}, "newline": []byte("a\n"), "all": allBytes(), "absent": nil,
	} {
		queue := "bytes-" + strings.ReplaceAll(name, " ", "-")
		m := client.Message{Body: body, Key: []byte{0xff, 0}, Headers: []client.Header{{Name: "ü", Value: ""}, {Name: "a", Value: "\x00 ☃"}}}
		put(t, cl, queue, m)
		d := take(t, cl, queue, time.Minute)
		if !bytes.Equal(d.Body, body) || !bytes.Equal(d.Key, m.Key) || fmt.Sprint(d.Headers) != fmt.Sprint(m.Headers) {
			t.Errorf("%s: leased body %x, key %x, headers %q", name, d.Body, d.Key, d.Headers)
		}
		if _, err := cl.Nack(ctx, d.Token, client.NackOptions{Permanent: true, Error: "bad \xff text"}); err != nil {
			t.Errorf("%s: nack with a text that is not UTF-8: %v", name, err)
		}
		dead, err := cl.DeadLetter(ctx, queue, d.ID)
		if err != nil || !bytes.Equal(dead.Body, body) || dead.BodyBytes != int64(len(body)) || !utf8.ValidString(dead.Error) {
			t.Errorf("%s: dead letter %+v, %v", name, dead, err)
		}
		file := filepath.Join(t.TempDir(), "body")
		if err := os.WriteFile(file, body, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := quorate(t, c.Addrs(), "enqueue", queue, "--file", file); r.code != 0 {
			t.Fatalf("%s: %+v", name, r)
		}
		r := quorate(t, c.Addrs(), "lease", queue, "--wait", "20s", "-o", "json")
		var leased []struct {
			Token, ID string
			Body      *string
		}
		if err := json.Unmarshal([]byte(r.stdout), &leased); err != nil || len(leased) != 1 || leased[0].Body == nil || *leased[0].Body != base64.StdEncoding.EncodeToString(body) {
			t.Fatalf("%s: quorate lease gives %+v, %v", name, r, err)
		}
		if r := quorate(t, c.Addrs(), "ack", leased[0].Token, "--result", file); r.code != 0 {
			t.Fatalf("%s: %+v", name, r)
		}
		res, err := cl.Result(ctx, "", leased[0].ID)
		if err != nil || res.Result == nil || !bytes.Equal(res.Result.Output, body) {
			t.Errorf("%s: result %+v, %v", name, res, err)
		}
	}
	for name, m := range map[string]client.Message{
		"kind": {Kind: "\xff"}, "content_type": {ContentType: "\xff"}, "task_id": {TaskID: "\xff"},
		"header's name": {Headers: []client.Header{{Name: "\xff", Value: "v"}}}, "header's value": {Headers: []client.Header{{Name: "n", Value: "\xff"}}},
	} {
		_, err := cl.Enqueue(ctx, "bytes", m)
		refused(t, name+" that is not UTF-8", err, client.ErrInvalidArgument)
	}
	_, err := cl.Enqueue(ctx, "b\xff", client.Message{})
	refused(t, "a queue name that is not UTF-8", err, client.ErrInvalidArgument)
}

func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// (C63)
func idsAreStrings(t *testing.T, c *proc.Cluster, cl *client.Client) {
	r := quorate(t, c.Addrs(), "enqueue", "strings", "x", "-o", "json")
	var m map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &m); err != nil {
		t.Fatal(err)
	}
	id, ok := m["id"].(string)
	if _, ok2 := m["task_id"].(string); !ok || !ok2 || len(id) != 26 || m["duplicate"] != false {
		t.Fatalf("enqueue says %s", r.stdout)
	}
	r = quorate(t, c.Addrs(), "lease", "strings", "--wait", "20s", "-o", "json")
	var list []map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || len(list) != 1 {
		t.Fatalf("lease says %s, %v", r.stdout, err)
	}
	token, ok := list[0]["token"].(string)
	if !ok || len(token) != 52 || !strings.HasPrefix(token, id) || list[0]["id"] != id {
		t.Fatalf("lease says %s", r.stdout)
	}
	// Through a reader that keeps numbers as doubles, and back.
	again, err := json.Marshal(list)
	if err != nil || !strings.Contains(string(again), token) {
		t.Fatal(err)
	}
	if r := quorate(t, c.Addrs(), "ack", token, "-o", "json"); r.code != 0 {
		t.Errorf("ack: %+v", r)
	}
	counts(t, cl, "strings", [5]int64{})
}

// Creating and deleting many queues leaves no series behind; no label holds an id, a key, a task or a worker, and none stands unescaped. (C65)
func seriesGo(t *testing.T, c *proc.Cluster, cl *client.Client) {
	ctx := within(t, 3*time.Minute)
	scrape := func() string {
		var all strings.Builder
		for _, n := range c.Nodes {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.ClientAddr+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
			res.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
		return all.String()
	}
	var ids []string
	for i := range 200 {
		queue := fmt.Sprint("series-", i)
		r := put(t, cl, queue, client.Message{TaskID: fmt.Sprint("secret-task-", i), Key: []byte("secret-key"), Kind: "secret\"kind\n"})
		ids = append(ids, r.ID)
	}
	for i := range 20 {
		if _, err := cl.Lease(ctx, fmt.Sprint("series-", i), client.LeaseOptions{Worker: fmt.Sprint("secret-worker-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	with := scrape()
	if n := strings.Count(with, `queue="series-`); n < 200 {
		t.Errorf("%d series for 200 queues", n)
	}
	for _, secret := range append(ids, "secret-task", "secret-key", "secret-worker", "secret\"kind") {
		if strings.Contains(with, secret) {
			t.Errorf("a label holds %q", secret)
		}
	}
	for i := range 200 {
		if err := cl.DeleteQueue(ctx, fmt.Sprint("series-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(scrape(), "series-"); n > 0 {
		t.Errorf("%d lines about deleted queues", n)
	}
}

// A consumer whose connection is open but dead gets at most its window; what it was given goes to others by its lease.
// (C57)
func silentConsumer(t *testing.T, c *proc.Cluster, cl *client.Client) {
	create(t, cl, "silent", client.QueueOptions{Retry: fixed(10*time.Millisecond, 1000)})
	p := dial(t, leader(t, c))
	p.send(wire.TypeOpenSession, &wire.OpenSession{})
	if f, err := p.next(); err != nil || f.Type != wire.TypeSessionOpened {
		t.Fatalf("frame %d, %v", f.Type, err)
	}
	p.send(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: "silent", Credit: 5, LeaseMillis: 1000})
	if f, err := p.next(); err != nil || f.Type != wire.TypeOK {
		t.Fatalf("frame %d, %v", f.Type, err)
	}
	if _, errs := cl.EnqueueBatch(within(t, 30*time.Second), "silent", make([]client.Message, 5)); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	counts(t, cl, "silent", [5]int64{1: 5}) // all with one that reads no more and answers no ping
	done, begin := map[string]bool{}, time.Now()
	for len(done) < 5 {
		d := take(t, cl, "silent", time.Minute)
		if d.Attempt < 2 || done[d.ID] {
			t.Errorf("%s comes at attempt %d, seen before: %v", d.ID, d.Attempt, done[d.ID])
		}
		done[d.ID] = true
		ack(t, cl, d, "")
	}
	if since := time.Since(begin); since > 15*time.Second { // sooner than the connection is known to be dead
		t.Errorf("it took %s until the living one had all five", since)
	}
	counts(t, cl, "silent", [5]int64{})
}

// (C27)
func stoppedWorker(t *testing.T, c *proc.Cluster, cl *client.Client) {
	r := put(t, cl, "stopped", client.Message{Retry: fixed(50*time.Millisecond, 5)})
	marker := filepath.Join(t.TempDir(), "go")
	first := worker(t, c, "stopped", []string{"--lease", "2s"}, "while [ ! -e "+marker+" ]; do sleep 0.1; done; echo first")
	becomes(t, cl, r.ID, "processing")
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	worker(t, c, "stopped", []string{"--lease", "20s"}, "echo second")
	res, err := cl.WaitResult(within(t, time.Minute), "", r.ID)
	if err != nil || res.Result == nil || string(res.Result.Output) != "second\n" || res.Result.Attempts > 3 {
		t.Fatalf("result %+v, %+v, %v, want the second worker's, the first one having had its turn twice at most", res.Result, res.Dead, err)
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil { // the first one's command ends; its worker wakes and hears of it
		t.Fatal(err)
	}
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it has said whatever it had to say
	again, err := cl.Result(within(t, time.Minute), "", r.ID)
	if err != nil || string(again.Result.Output) != "second\n" {
		t.Errorf("result %+v, %v after the first worker woke", again, err)
	}
	if q := counts(t, cl, "stopped", [5]int64{}); q.Totals["acked"] != 1 {
		t.Errorf("%d acked, want 1", q.Totals["acked"])
	}
}

// A command that goes on and on is ended with the drain; its message is not acked and is at once available, free. (C39)
func drainEnds(t *testing.T, c *proc.Cluster, cl *client.Client) {
	r := put(t, cl, "drain", client.Message{})
	w := busy(t, c, "drain", []string{"--lease", "60s", "--drain-timeout", "1s"}, "trap '' TERM INT")
	begin := time.Now()
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = w.Wait() // how it ended shows in what became of the message
	if since := time.Since(begin); since < time.Second || since > 20*time.Second {
		t.Errorf("it ended after %s, want the drain time-out of 1 s", since)
	}
	d := take(t, cl, "drain", time.Minute)
	if d.ID != r.ID || d.Attempt != 1 {
		t.Errorf("%s comes back at attempt %d, want %s at 1: giving it back costs nothing", d.ID, d.Attempt, r.ID)
	}
	ack(t, cl, d, "")

	// A second signal ends it at once; what it had is back by its lease at the latest.
	r = put(t, cl, "drain", client.Message{Retry: fixed(10*time.Millisecond, 5)})
	w = busy(t, c, "drain", []string{"--lease", "3s", "--drain-timeout", "10m"}, "trap '' TERM INT")
	for range 2 {
		if err := w.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		hold(t, 300*time.Millisecond) // two signals at once are one
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Wait() }()
	select {
	case <-ended:
	case <-within(t, 20*time.Second).Done():
		t.Error("a second signal does not end it")
		_ = syscall.Kill(-w.Process.Pid, syscall.SIGKILL)
		<-ended
	}
	if d := take(t, cl, "drain", time.Minute); d.ID != r.ID {
		t.Errorf("%s comes back, want %s", d.ID, r.ID)
	}
}

// (C39)
func killedInDrain(t *testing.T, c *proc.Cluster, cl *client.Client) {
	create(t, cl, "killed", client.QueueOptions{Retry: fixed(10*time.Millisecond, 5)})
	r := put(t, cl, "killed", client.Message{})
	w := busy(t, c, "killed", []string{"--lease", "2s", "--drain-timeout", "10m"}, "true")
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hold(t, 500*time.Millisecond) // it drains
	killGroup(w)
	d := take(t, cl, "killed", time.Minute)
	if d.ID != r.ID || d.Attempt != 2 {
		t.Errorf("%s comes back at attempt %d, want %s at 2", d.ID, d.Attempt, r.ID)
	}
	ack(t, cl, d, "")
	counts(t, cl, "killed", [5]int64{})
}
