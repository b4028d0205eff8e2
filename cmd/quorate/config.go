package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/cluster/store"
	"github.com/quorate/quorate/transport/httpapi"
	"github.com/quorate/quorate/transport/spans"
)

// Config is quorate.toml.
type Config struct {
	NodeID     string `toml:"node_id"`
	DataDir    string `toml:"data_dir"`
	AutoCreate bool   `toml:"auto_create"`
	Client     struct {
		Addr        string   `toml:"addr"`
		Advertise   string   `toml:"advertise"`
		CORSOrigins []string `toml:"cors_origins"`
	} `toml:"client"`
	Raft struct {
		Addr      string `toml:"addr"`
		Advertise string `toml:"advertise"`
		LogStore  string `toml:"log_store"`
	} `toml:"raft"`
	Gossip struct {
		Addr            string   `toml:"addr"`
		Advertise       string   `toml:"advertise"`
		Join            []string `toml:"join"`
		BootstrapExpect int64    `toml:"bootstrap_expect"`
	} `toml:"gossip"`
	Limits struct {
		MaxMessageBytes int64 `toml:"max_message_bytes"`
		MemoryBytes     int64 `toml:"memory_bytes"`
		DiskFreeBytes   int64 `toml:"disk_free_bytes"`
		MaxConnections  int64 `toml:"max_connections"`
		MaxStreams      int64 `toml:"max_streams"`
	} `toml:"limits"`
	Log struct {
		Level      string `toml:"level"`
		Access     bool   `toml:"access"`
		SlowMillis int64  `toml:"slow_ms"`
	} `toml:"log"`
	Trace struct {
		Endpoint string `toml:"endpoint"`
	} `toml:"trace"`
	Auth struct {
		Enabled bool `toml:"enabled"`
	} `toml:"auth"`
	Push struct {
		Allow   []string `toml:"allow"`
		Secrets []string `toml:"secrets"`
	} `toml:"push"`
	Queues    []declaredQueue    `toml:"queue"`
	Schedules []declaredSchedule `toml:"schedule"`
	Hooks     []declaredHook     `toml:"hook"`
}

// setting is one key of the configuration: where it lives, what it is for, what it may be.
type setting struct {
	key  string
	help string
	at   func(*Config) any // pointer to string, bool, int64 or []string
	ok   func(v any) error // nil: anything
}

var settings = []setting{
	{"node_id", "the node's label (default: host name)", func(c *Config) any { return &c.NodeID }, label},
	{"data_dir", "where the node keeps its data (default: data/NODE_ID)", func(c *Config) any { return &c.DataDir }, nil},
	{"auto_create", "create a queue with defaults on first enqueue", func(c *Config) any { return &c.AutoCreate }, nil},
	{"client.addr", "address for clients: WebSocket, HTTP API, health, metrics", func(c *Config) any { return &c.Client.Addr }, hostPort},
	{"client.advertise", "client address to tell others (default: client.addr)", func(c *Config) any { return &c.Client.Advertise }, optionalHostPort},
	{"client.cors_origins", "origins (scheme://host[:port]) of web pages that may use the HTTP API; without any, those of this address alone", func(c *Config) any { return &c.Client.CORSOrigins }, corsOrigins},
	{"raft.addr", "address for the log and for calls between nodes", func(c *Config) any { return &c.Raft.Addr }, hostPort},
	{"raft.advertise", "raft address to tell others (default: raft.addr)", func(c *Config) any { return &c.Raft.Advertise }, optionalHostPort},
	{"raft.log_store", fmt.Sprintf("how the log is kept on disk: %q or %q (default: as the data directory has it, a new one gets %q; quorate log convert changes it)", store.Bolt, store.WAL, store.DefaultKind), func(c *Config) any { return &c.Raft.LogStore }, logStore},
	{"gossip.addr", "address for membership, TCP and UDP", func(c *Config) any { return &c.Gossip.Addr }, hostPort},
	{"gossip.advertise", "gossip address to tell others (default: gossip.addr)", func(c *Config) any { return &c.Gossip.Advertise }, optionalHostPort},
	{"gossip.join", "gossip addresses of other nodes", func(c *Config) any { return &c.Gossip.Join }, hostPorts},
	{"gossip.bootstrap_expect", "how many empty nodes found a new cluster; 0: only join one", func(c *Config) any { return &c.Gossip.BootstrapExpect }, within(0, 9)},
	{"limits.max_message_bytes", "largest body or result, 1 to 16777216", func(c *Config) any { return &c.Limits.MaxMessageBytes }, within(1, 16<<20)},
	{"limits.memory_bytes", "what messages and tables may hold; at 85 % of it enqueues are refused, all else goes on; 0: 70 % of the machine's memory or its cgroup's", func(c *Config) any { return &c.Limits.MemoryBytes }, within(0, 1<<50)},
	{"limits.disk_free_bytes", "what must be left where data_dir is: with less, enqueues are refused, all else goes on; should be above what a snapshot takes; 0: 256 MiB, or a tenth of the file system where that is less", func(c *Config) any { return &c.Limits.DiskFreeBytes }, within(0, 1<<50)},
	{"limits.max_connections", "client connections at once", func(c *Config) any { return &c.Limits.MaxConnections }, within(1, 1_000_000)},
	{"limits.max_streams", "streams of Server-Sent Events at once, beside those", func(c *Config) any { return &c.Limits.MaxStreams }, within(1, 1_000_000)},
	{"log.level", "what is logged: debug, info, warn or error, each with all behind it", func(c *Config) any { return &c.Log.Level }, logLevel},
	{"log.access", "log every HTTP request, with its route and none of its path, query, headers or body, and the begin and end of every WebSocket, at level info", func(c *Config) any { return &c.Log.Access }, nil},
	{"log.slow_ms", "log operations that take longer than this from arrival to answer, with the time of each phase, five lines a second at most; 0: none", func(c *Config) any { return &c.Log.SlowMillis }, within(0, 3_600_000)},
	{"trace.endpoint", "URL of an OpenTelemetry collector that spans of traced messages are posted to (OTLP over HTTP, JSON), such as http://127.0.0.1:4318/v1/traces; without one there are no spans", func(c *Config) any { return &c.Trace.Endpoint }, traceEndpoint},
	{"push.allow", "networks, such as 10.0.0.0/8, that push_url may lead to beside public addresses", func(c *Config) any { return &c.Push.Allow }, pushAllow},
	{"push.secrets", "what push_secrets name: NAME=env:VARIABLE or NAME=file:PATH, which hold whsec_ and the base64 of 24 to 64 bytes", func(c *Config) any { return &c.Push.Secrets }, pushSecrets},
	{"auth.enabled", "must be false: authentication does not exist yet", func(c *Config) any { return &c.Auth.Enabled }, noAuth},
}

func (s setting) flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.key) }
func (s setting) env() string {
	return "QUORATE_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.key))
}

// resolved is a configuration and where each of its values came from, by key.
type resolved struct {
	Config
	source map[string]string
}

func defaults() Config {
	var c Config
	c.NodeID, _ = os.Hostname() // empty without one: then node_id must be given, which label says
	c.AutoCreate = true
	c.Client.Addr = defaultAddr
	c.Raft.Addr = "127.0.0.1:7341"
	c.Gossip.Addr = "127.0.0.1:7342"
	c.Gossip.BootstrapExpect = 1
	c.Limits.MaxMessageBytes = 1 << 20
	c.Limits.MaxConnections = 10_000
	c.Limits.MaxStreams = 10_000
	c.Log.Level = "info"
	return c
}

// bindSettings makes a flag of every key.
func bindSettings(f *pflag.FlagSet) {
	def := defaults()
	for _, s := range settings {
		value := ""
		if !strings.Contains(s.help, "default: ") && !slices.Contains([]string{`""`, "[]", "0", "false"}, s.text(&def)) {
			value = "; default " + s.text(&def)
		}
		f.String(s.flag(), "", fmt.Sprintf("%s (%s, %s%s)", s.help, s.key, s.env(), value))
	}
}

// resolve puts the configuration together: flag over environment over file over default.
func resolve(file string, f *pflag.FlagSet, getenv func(string) (string, bool)) (*resolved, error) {
	r := &resolved{Config: defaults(), source: map[string]string{}}
	for _, s := range settings {
		r.source[s.key] = "default"
	}
	if file != "" {
		if err := r.readFile(file); err != nil {
			return nil, err
		}
	}
	for _, s := range settings {
		if v, ok := getenv(s.env()); ok {
			if err := s.parse(&r.Config, v); err != nil {
				return nil, fmt.Errorf("environment %s: %w", s.env(), err)
			}
			r.source[s.key] = "environment " + s.env()
		}
		if fl := f.Lookup(s.flag()); fl != nil && fl.Changed {
			if err := s.parse(&r.Config, fl.Value.String()); err != nil {
				return nil, fmt.Errorf("flag --%s: %w", s.flag(), err)
			}
			r.source[s.key] = "flag --" + s.flag()
		}
	}
	for _, s := range settings {
		if s.ok == nil {
			continue
		}
		if err := s.ok(s.at(&r.Config)); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", r.source[s.key], s.key, err)
		}
	}
	if r.DataDir == "" {
		r.DataDir = filepath.Join("data", r.NodeID)
	}
	if err := r.contradictions(); err != nil {
		return nil, err
	}
	return r, r.checkDeclaredIn(file)
}

// readFile reads quorate.toml strictly and remembers the line of each key.
func (r *resolved) readFile(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	d := toml.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&r.Config); err != nil {
		return fmt.Errorf("configuration %s: %w", file, explain(err))
	}
	lines := keyLines(b)
	for _, s := range settings {
		if line, ok := lines[s.key]; ok {
			r.source[s.key] = fmt.Sprintf("%s:%d", file, line)
		}
	}
	return nil
}

// explain turns the decoder's errors into a line and what would be right.
func explain(err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		e := strict.Errors[0]
		line, _ := e.Position()
		key := strings.Join(e.Key(), ".")
		if known := declaredHelp(key); known != "" {
			last := key[strings.LastIndexByte(key, '.')+1:]
			if near := nearest(last, strings.FieldsFunc(known, notOfKeys)); near != "" {
				return fmt.Errorf("line %d: unknown key %q; did you mean %s? Known keys there: %s", line, key, near, known)
			}
			return fmt.Errorf("line %d: unknown key %q; known keys there: %s", line, key, known)
		}
		if near := nearest(key, keys()); near != "" {
			return fmt.Errorf("line %d: unknown key %q; did you mean %s?", line, key, near)
		}
		return fmt.Errorf("line %d: unknown key %q; known keys: %s, and the tables [[queue]], [[schedule]] and [[hook]]", line, key, strings.Join(keys(), ", "))
	}
	var dec *toml.DecodeError
	if errors.As(err, &dec) {
		line, col := dec.Position()
		if key := strings.Join(dec.Key(), "."); key != "" && strings.Contains(err.Error(), "cannot decode TOML") {
			want := cmp.Or(declaredType(key), "another type")
			for _, s := range settings {
				if s.key == key {
					want = typeName(s)
				}
			}
			return fmt.Errorf("line %d, column %d: %s is of the wrong type, want %s", line, col, key, want)
		}
		return fmt.Errorf("line %d, column %d: %w", line, col, err)
	}
	return err
}

// notOfKeys is what stands between the names in a text that lists keys.
func notOfKeys(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }

// typeName is what a setting's value must be in TOML.
func typeName(s setting) string {
	switch s.at(&Config{}).(type) {
	case *bool:
		return "true or false"
	case *int64:
		return "a whole number without quotes"
	case *[]string:
		return "a list of strings: [\"…\", \"…\"]"
	}
	return "a string in quotes"
}

func keys() []string {
	var k []string
	for _, s := range settings {
		k = append(k, s.key)
	}
	return k
}

// parse sets the value from text: lists are comma-separated.
func (s setting) parse(c *Config, v string) error {
	switch p := s.at(c).(type) {
	case *string:
		*p = v
	case *bool:
		b, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("%q is not true or false", v)
		}
		*p = b
	case *int64:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", v)
		}
		*p = n
	case *[]string:
		*p = nil
		for _, a := range strings.Split(v, ",") {
			if a = strings.TrimSpace(a); a != "" {
				*p = append(*p, a)
			}
		}
	}
	return nil
}

func (s setting) text(c *Config) string {
	switch p := s.at(c).(type) {
	case *string:
		return strconv.Quote(*p)
	case *[]string:
		q := make([]string, len(*p))
		for i, a := range *p {
			q[i] = strconv.Quote(a)
		}
		return "[" + strings.Join(q, ", ") + "]"
	case *bool:
		return strconv.FormatBool(*p)
	case *int64:
		return strconv.FormatInt(*p, 10)
	}
	return ""
}

// print shows every value with its source, as TOML.
func (r *resolved) print(c *cli) {
	section := ""
	for _, s := range settings {
		sec, name, ok := strings.Cut(s.key, ".")
		if !ok {
			sec, name = "", s.key
		}
		if sec != section {
			fmt.Fprintf(c.stdout, "[%s]\n", sec)
			section = sec
		}
		fmt.Fprintf(c.stdout, "%-40s # %s\n", name+" = "+s.text(&r.Config), r.source[s.key])
	}
}

// contradictions are values that are fine alone but not together.
func (r *resolved) contradictions() error {
	seen := map[string]string{}
	for _, k := range []string{"client.addr", "raft.addr", "gossip.addr"} {
		for _, s := range settings {
			if s.key != k {
				continue
			}
			a := *s.at(&r.Config).(*string)
			if other, ok := seen[a]; ok && !strings.HasSuffix(a, ":0") {
				return fmt.Errorf("%s: %s and %s are both %s; each needs a port of its own", r.source[k], other, k, a)
			}
			seen[a] = k
		}
	}
	if r.Gossip.BootstrapExpect > 1 && len(r.Gossip.Join) == 0 {
		return fmt.Errorf("%s: gossip.bootstrap_expect is %d but gossip.join is empty; name the gossip address of at least one other node",
			r.source["gossip.bootstrap_expect"], r.Gossip.BootstrapExpect)
	}
	return nil
}

// The checks: each gets the pointer that setting.at returns.

func label(v any) error {
	s := *v.(*string)
	if s == "" || len(s) > 64 {
		return fmt.Errorf("%q has %d bytes, want 1 to 64", s, len(s))
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r) {
			return fmt.Errorf("%q holds %q; want letters, digits, dot, dash and underscore", s, r)
		}
	}
	return nil
}

func logLevel(v any) error {
	_, err := levelOf(*v.(*string))
	return err
}

// levelOf is a level of the log by its name.
func levelOf(name string) (l slog.Level, err error) {
	switch strings.ToLower(name) {
	case "debug", "info", "warn", "error":
		return l, l.UnmarshalText([]byte(name))
	}
	return l, fmt.Errorf("%q is no level, want debug, info, warn or error", name)
}

func logStore(v any) error {
	_, err := store.ParseKind(*v.(*string))
	return err
}

func hostPort(v any) error {
	s := *v.(*string)
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not host:port (such as 127.0.0.1:7340)", s)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q: the port is not a number from 0 to 65535", s)
	}
	return nil
}

func optionalHostPort(v any) error {
	if *v.(*string) == "" {
		return nil
	}
	return hostPort(v)
}

func hostPorts(v any) error {
	for _, a := range *v.(*[]string) {
		if err := hostPort(&a); err != nil {
			return err
		}
	}
	return nil
}

func corsOrigins(v any) error {
	for _, o := range *v.(*[]string) {
		if err := httpapi.CheckOrigin(o); err != nil {
			return err
		}
	}
	return nil
}

func within(low, high int64) func(any) error {
	return func(v any) error {
		if n := *v.(*int64); n < low || n > high {
			return fmt.Errorf("%d is out of range, want %d to %d", n, low, high)
		}
		return nil
	}
}

func traceEndpoint(v any) error {
	s := *v.(*string)
	if s == "" {
		return nil
	}
	return spans.CheckEndpoint(s)
}

func noAuth(v any) error {
	if *v.(*bool) {
		return errors.New("authentication does not exist yet; want false, with loopback addresses only")
	}
	return nil
}
