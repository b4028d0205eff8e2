package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// root is the module, as seen from this package.
const root = "../.."

// program is the path of one of Prometheus' programs.
func program(t *testing.T, name string) string {
	t.Helper()
	if path, err := filepath.Abs(filepath.Join(root, ".tools/prometheus/usr/bin", name)); err == nil {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not here: scripts/setup gets it where there is apt-get", name)
	}
	return path
}

// The alert rules and the example configuration are valid, and the rules do what their tests say.
func TestAlertRules(t *testing.T) {
	promtool := program(t, "promtool")
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"}, {"test", "rules", "alerts_test.yml"},
	} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = filepath.Join(root, "scripts/prometheus")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Every alert has a test, by its name in alerts_test.yml or here with why it has none.
func TestEveryAlertIsTested(t *testing.T) {
	untested := map[string]string{
		"QuorateDiskFilling":      "extrapolates an hour",
		"QuorateSlowConsumers":    "one rate and a threshold",
		"QuorateQueuesUnexported": "one gauge and a threshold",
	}
	rules, tests := read(t, "scripts/prometheus/alerts.yml"), read(t, "scripts/prometheus/alerts_test.yml")
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if _, ok := untested[m[1]]; ok == regexp.MustCompile(m[1]+`\b`).MatchString(tests) {
			t.Errorf("%s is tested: %t, listed as untested: %t", m[1], !ok, ok)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// queries are the dashboard's, by the title of their panel.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "scripts/grafana/quorate.json")), &board); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			// What Grafana puts in the place of variables.
			all[p.Title] = append(all[p.Title], strings.NewReplacer("$job", "quorate", "$queue", ".*", "$__rate_interval", "20s").Replace(target.Expr))
		}
	}
	return all
}

// prometheus is a running server.
type prometheus struct{ addr string }

// startPrometheus runs one with the repository's configuration, but that it scrapes these addresses, each second.
func startPrometheus(t *testing.T, addrs []string) prometheus {
	t.Helper()
	binary, dir := program(t, "prometheus"), t.TempDir()
	config := read(t, "scripts/prometheus/prometheus.yml")
	for from, to := range map[string]string{
		`["127.0.0.1:7340", "127.0.0.1:7350", "127.0.0.1:7360"]`: `["` + strings.Join(addrs, `", "`) + `"]`,
		"scrape_interval: 15s": "scrape_interval: 1s", "evaluation_interval: 15s": "evaluation_interval: 1s",
	} {
		if strings.Count(config, from) != 1 {
			t.Fatalf("prometheus.yml has %q not once", from)
		}
		config = strings.Replace(config, from, to, 1)
	}
	for name, text := range map[string]string{"prometheus.yml": config, "alerts.yml": read(t, "scripts/prometheus/alerts.yml")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ports, err := proc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	p := &proc.Process{Name: "prometheus", Binary: binary, LogFile: filepath.Join(dir, "log"), Args: []string{
		"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + ports[0],
	}}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("prometheus' last words: %s", p.LastLog())
		}
	})
	return prometheus{ports[0]}
}

// get asks for one of the API's answers.
func (p prometheus) get(ctx context.Context, path string, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("status %s: %w", resp.Status, err)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// values are what a query gives now, those left out that are no number.
func (p prometheus) values(ctx context.Context, query string) (vs []float64, err error) {
	var data struct{ Result []struct{ Value [2]any } }
	if err := p.get(ctx, "query?query="+url.QueryEscape(query), &data); err != nil {
		return nil, err
	}
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(v) {
			vs = append(vs, v)
		}
	}
	return vs, nil
}

// until asks again, twice a second, until ok or ctx ends: there is no signal of a scrape.
func (p prometheus) until(ctx context.Context, query string, ok func(vs []float64) bool) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		vs, err := p.values(ctx, query)
		if err == nil && ok(vs) {
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("last %v", vs)
			}
			return fmt.Errorf("%s: %w", query, err)
		case <-tick.C:
		}
	}
}

func some(vs []float64) bool { return len(vs) > 0 }

// Prometheus scrapes three nodes at work; every query of the dashboard gives data, and so does every metric that an alert asks for.
func TestPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes and Prometheus")
	}
	program(t, "prometheus")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	binary := filepath.Join(t.TempDir(), "quorate")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/quorate/quorate/cmd/quorate").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	c, err := proc.New(proc.Config{Binary: binary, Nodes: 3, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Kill()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	p := startPrometheus(t, c.Addrs())
	done := work(ctx, t, c.Addrs())
	defer done()

	for query, want := range map[string]float64{
		`sum(up{job="quorate"})`: 3, `sum(quorate_ready{job="quorate"})`: 3, `sum(quorate_leading{job="quorate"})`: 1, `count(quorate_node_info{node=~"n[123]"})`: 3,
	} {
		if err := p.until(ctx, query, func(vs []float64) bool { return len(vs) == 1 && vs[0] == want }); err != nil {
			t.Fatal(err)
		}
	}
	boards := queries(t)
	if len(boards) < 20 {
		t.Fatalf("%d panels have queries, want 20 and more", len(boards))
	}
	n := 0
	for title, list := range boards {
		for _, q := range list {
			n++
			if err := p.until(ctx, q, some); err != nil {
				t.Errorf("panel %q has no data: %v", title, err)
			}
		}
	}
	metric := regexp.MustCompile(`quorate_[a-z_]+`)
	for _, name := range metric.FindAllString(read(t, "scripts/prometheus/alerts.yml"), -1) {
		if err := p.until(ctx, name, some); err != nil {
			t.Errorf("an alert asks for %s: %v", name, err)
		}
	}
	t.Logf("%d queries of %d panels gave data", n, len(boards))

	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.get(ctx, "rules", &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				t.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
}

// work has messages of every kind of end made until the function it returns is called, which waits for it.
func work(ctx context.Context, t *testing.T, addrs []string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	c, err := client.Open(ctx, client.Options{Addrs: addrs, FailWhenFull: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]client.QueueOptions{
		"mail": {}, "orders": {Ordering: "per_key"}, "full": {MaxDepth: 1},
	} {
		if err := c.CreateQueue(ctx, name, o); err != nil {
			t.Fatal(err)
		}
	}
	ends := make(chan error, 3)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			_, err := c.Enqueue(ctx, "mail", client.Message{Kind: fmt.Sprintf("kind-%d", i%3), Body: []byte(strconv.Itoa(i))})
			if err == nil {
				_, err = c.Enqueue(ctx, "orders", client.Message{Key: []byte("k"), Delay: time.Duration(i%2) * time.Minute})
			}
			if _, full := c.Enqueue(ctx, "full", client.Message{}); err == nil && full != nil && !errors.Is(full, client.ErrQueueFull) {
				err = full
			}
			select {
			case <-ctx.Done():
				ends <- nil
				return
			case <-tick.C:
			}
			if err != nil && ctx.Err() == nil {
				ends <- err
				return
			}
		}
	}()
	for _, queue := range []string{"mail", "orders"} {
		go func() {
			n := 0
			err := c.Consume(ctx, queue, client.ConsumeOptions{Concurrency: 1}, func(context.Context, *client.Delivery) (*client.Result, error) {
				if n++; n%5 == 0 {
					return nil, client.Permanent(errors.New("every fifth"))
				}
				return nil, nil
			})
			if ctx.Err() != nil {
				err = nil
			}
			ends <- err
		}()
	}
	return func() {
		cancel()
		for range cap(ends) {
			if err := <-ends; err != nil {
				t.Errorf("work: %v", err)
			}
		}
		closing, end := context.WithTimeout(context.Background(), 10*time.Second)
		defer end()
		if err := c.Close(closing); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}
