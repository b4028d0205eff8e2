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
	config := filepath.Join(t.TempDir(), "quorate.toml")
	if err := os.WriteFile(config, []byte(doors), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := proc.New(proc.Config{Binary: binary, Nodes: 3, Dir: t.TempDir(), Args: []string{"--config", config}, Env: []string{"OBSERVED_SECRET=" + hookSecret}})
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
		// Why queues do not move is in Prometheus as it is at the doors.
		`max(quorate_queue_held{queue="alone", reason="no_consumers"})`: 1, `max(quorate_queue_held{queue="paused", reason="paused"})`: 1,
		`max(quorate_queue_held{queue="keys", reason="keys_blocked"})`: 1, `max(quorate_queue_held{queue="limited", reason="in_flight_limit"})`: 1,
		`max(max_over_time(quorate_queue_held{queue="unreached", reason="push_resting"}[5m]))`: 1,
	} {
		if err := p.until(ctx, query, func(vs []float64) bool { return len(vs) == 1 && vs[0] == want }); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range promised {
		if err := p.until(ctx, "quorate_"+name, some); err != nil {
			t.Errorf("a metric is not there: %v", err)
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

// promised are the metrics whose names users hold on to, with the labels that each has; their prefix is left out.
var promised = []string{
	`queue_pending_total{queue="mail", kind="kind-1"}`, `queue_pending_idle_max_seconds{queue="mail"}`, `queue_oldest_message_age_seconds{queue="mail"}`,
	`queue_leased{queue="mail"}`, `queue_scheduled{queue="orders"}`, `queue_dead{queue="mail"}`, `queue_enqueued_total{queue="mail"}`,
	`queue_ack_total{queue="mail", kind="kind-1"}`, `queue_nack_total{queue="mail"}`, `queue_dead_total{queue="mail", kind="kind-1", reason="permanent"}`,
	`queue_lease_expired_total{queue="mail"}`, `queue_duplicates_total{queue="mail"}`,
	"enqueue_commit_seconds_bucket", "enqueue_to_lease_seconds_bucket", "lease_to_ack_seconds_bucket",
	"raft_term", "raft_last_index", "raft_commit_index", "raft_applied_index", "group_leader_changes_total",
	"raft_log_fsync_seconds_bucket", "group_apply_seconds_bucket", "raft_log_batch_entries_bucket", "group_entry_operations_bucket", "proposed_batch_size_bucket",
	"connections", `frames_total{direction="in"}`, `bytes_total{direction="out"}`, `slow_consumers_total{what="closed"}`,
	`mapped_messages_total{queue="mapped", outcome="mapped"}`, `mapped_messages_total{queue="mapped", outcome="nothing"}`, `mapped_messages_total{queue="mapped", outcome="failed"}`,
	`queue_dead_total{queue="mapped", reason="mapping"}`, "mapped_queues",
	`state_bytes{part="live"}`, `state_records{table="messages"}`, `node_info{node="n1"}`,
}
