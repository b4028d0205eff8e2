package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// resolveWith resolves a file's text, flags and environment.
func resolveWith(t *testing.T, file string, flags []string, env map[string]string) (*resolved, error) {
	t.Helper()
	path := ""
	if file != "" {
		path = filepath.Join(t.TempDir(), "quorate.toml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	bindSettings(fs)
	if err := fs.Parse(flags); err != nil {
		t.Fatal(err)
	}
	return resolve(path, fs, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
}

func TestConfigurationPrecedence(t *testing.T) {
	t.Parallel()
	const file = "node_id = \"file\"\n[client]\naddr = \"127.0.0.1:1001\"\n[limits]\nmax_connections = 5\n"
	r, err := resolveWith(t, file, []string{"--client-addr", "127.0.0.1:1003"}, map[string]string{"QUORATE_CLIENT_ADDR": "127.0.0.1:1002", "QUORATE_LIMITS_MAX_CONNECTIONS": "6"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ what, got, want, source string }{
		{"flag over all", r.Client.Addr, "127.0.0.1:1003", "flag --client-addr"},
		{"file over default", r.NodeID, "file", "quorate.toml:1"},
		{"default", r.Raft.Addr, "127.0.0.1:7341", "default"},
		{"data_dir follows node_id", r.DataDir, filepath.Join("data", "file"), "default"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.what, tc.got, tc.want)
		}
	}
	if r.Limits.MaxConnections != 6 {
		t.Errorf("environment over file: got %d, want 6", r.Limits.MaxConnections)
	}
	for key, want := range map[string]string{"client.addr": "flag --client-addr", "limits.max_connections": "environment QUORATE_LIMITS_MAX_CONNECTIONS", "raft.addr": "default"} {
		if r.source[key] != want {
			t.Errorf("source of %s is %q, want %q", key, r.source[key], want)
		}
	}
	if !strings.HasSuffix(r.source["node_id"], "quorate.toml:1") {
		t.Errorf("source of node_id is %q, want the file and line 1", r.source["node_id"])
	}
}

// Every wrong configuration is refused with where it is wrong and what would be right.
func TestConfigurationErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, file string
		flags      []string
		env        map[string]string
		want       []string
	}{
		{"unknown key", "node_id = \"a\"\n[client]\nadr = \"x\"\n", nil, nil, []string{"line 3", "client.adr", "client.addr"}},
		{"wrong type", "node_id = \"a\"\n[limits]\nmax_connections = \"many\"\n", nil, nil, []string{"line 3"}},
		{"not toml", "node_id = = 3\n", nil, nil, []string{"line 1"}},
		{"bad value names the line", "node_id = \"a\"\n\n[client]\naddr = \"nowhere\"\n", nil, nil, []string{"quorate.toml:4", "host:port"}},
		{"bad port", "", []string{"--raft-addr", "127.0.0.1:99999"}, nil, []string{"flag --raft-addr", "0 to 65535"}},
		{"bad number in the environment", "", nil, map[string]string{"QUORATE_LIMITS_MAX_MESSAGE_BYTES": "1MB"}, []string{"QUORATE_LIMITS_MAX_MESSAGE_BYTES", "whole number"}},
		{"out of range", "", []string{"--limits-max-message-bytes", "99999999"}, nil, []string{"16777216"}},
		{"a collector that is none", "[trace]\nendpoint = \"127.0.0.1:4318\"\n", nil, nil, []string{"quorate.toml:2", "trace.endpoint", "http://127.0.0.1:4318/v1/traces"}},
		{"a secret in the collector's URL", "[trace]\nendpoint = \"http://u:p@h/v1/traces\"\n", nil, nil, []string{"quorate.toml:2", "trace.endpoint"}},
		{"a negative threshold", "[log]\nslow_ms = -1\n", nil, nil, []string{"quorate.toml:2", "log.slow_ms", "0 to 3600000"}},
		{"auth does not exist yet", "[auth]\nenabled = true\n", nil, nil, []string{"quorate.toml:2", "auth.enabled", "false"}},
		{"two listeners on one port", "", []string{"--raft-addr", "127.0.0.1:7340"}, nil, []string{"client.addr", "raft.addr", "port"}},
		{"expecting others without their addresses", "", []string{"--gossip-bootstrap-expect", "3"}, nil, []string{"gossip.join"}},
		{"log store", "[raft]\nlog_store = \"rocks\"\n", nil, nil, []string{"quorate.toml:2", "raft.log_store", `"rocks"`, `"bolt"`, `"wal"`}},
		{"a key that is near", "node_id = \"a\"\n[limits]\nmax_mesage_bytes = 1\n", nil, nil, []string{"line 3", "did you mean limits.max_message_bytes?"}},
		{"a key that is nowhere near", "colour = 1\n", nil, nil, []string{"line 1", "known keys: node_id, "}},
		{"a level that is none", "[log]\nlevel = \"loud\"\n", nil, nil, []string{"quorate.toml:2", "log.level", `"loud"`, "debug, info, warn or error"}},
		{"a level between two", "", []string{"--log-level", "info+1"}, nil, []string{"flag --log-level", "debug, info, warn or error"}},
		{"a level of the environment", "", nil, map[string]string{"QUORATE_LOG_LEVEL": ""}, []string{"environment QUORATE_LOG_LEVEL", "debug, info, warn or error"}},
		{"label", "", []string{"--node-id", "a/b"}, nil, []string{"letters"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := resolveWith(t, tc.file, tc.flags, tc.env)
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
	if _, err := resolveWith(t, "", nil, nil); err != nil {
		t.Errorf("defaults alone: %v", err)
	}
}

// The level of the log is a setting like any other, and is what the log keeps to.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	r, err := resolveWith(t, "[log]\nlevel = \"warn\"\n", nil, nil)
	if err != nil || r.Log.Level != "warn" {
		t.Errorf("level of the file: %q, %v", r.Log.Level, err)
	}
	r, err = resolveWith(t, "[log]\nlevel = \"warn\"\n", []string{"--log-level", "DEBUG"}, map[string]string{"QUORATE_LOG_LEVEL": "error"})
	if err != nil || r.source["log.level"] != "flag --log-level" {
		t.Errorf("level of the flag: %q from %s, %v", r.Log.Level, r.source["log.level"], err)
	}
	for _, tc := range []struct {
		level string
		said  int
	}{{"debug", 4}, {"info", 3}, {"Warn", 2}, {"ERROR", 1}} {
		var out bytes.Buffer
		log, err := (&cli{stderr: &out}).logger(tc.level)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		log.Error("e")
		if n := strings.Count(out.String(), "\n"); n != tc.said {
			t.Errorf("%s says %d lines of four, want %d", tc.level, n, tc.said)
		}
	}
}
