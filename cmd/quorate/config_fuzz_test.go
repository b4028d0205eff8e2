package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// FuzzConfiguration: whatever stands in a configuration file, it is either taken whole, with every value within its range and the line
// it came from, or refused with the file's name.
func FuzzConfiguration(f *testing.F) {
	for _, text := range []string{
		"", "node_id = \"a\"\n[client]\naddr = \"127.0.0.1:1\"\n", "node_id = = 3", "[limits]\nmax_connections = 99999999999999999999\n",
		"[[queue]]\nname = \"q\"\nlease_ms = 1000\n[queue.retry]\nkind = \"exponential\"\nmax_attempts = 5\n",
		"[[schedule]]\nname = \"s\"\nqueue = \"q\"\ncron = \"0 3 * * *\"\nzone = \"Europe/Berlin\"\nkeys_if_undelivered = [[\"a\", \"b\"]]\n",
		"[[queue]]\nname = \"q\"\nrate = 1e300\nfair_by = \"key\"\nfair_weights = {a = 2}\n", "[[queue]]\n[[queue]]\n", "queue = 3\n", "[auth]\nenabled = true\n",
		"[[hook]]\nname = \"h\"\nqueue = \"q\"\nkeep_headers = [\"X-A\"]\nverify = { scheme = \"stripe\", secret_env = \"S\", tolerance_ms = 1000 }\nidempotency = { pointer = \"/id\" }\n",
		"[client]\naddr = \"[::1]:0\"\n[gossip]\njoin = [\"127.0.0.1:7352\", \"x\"]\nbootstrap_expect = 3\n",
	} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	bindSettings(flags)
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 64<<10 {
			return
		}
		file := filepath.Join(dir, "quorate.toml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := resolve(file, flags, func(string) (string, bool) { return "", false })
		if err != nil {
			// What several keys contradict each other in is named by the keys.
			if !strings.Contains(err.Error(), file) && !strings.Contains(err.Error(), ".") {
				t.Errorf("the refusal does not say where: %v", err)
			}
			if !utf8.ValidString(err.Error()) || len(err.Error()) > 8<<10 {
				t.Errorf("the refusal is %d bytes: %.200q", len(err.Error()), err.Error())
			}
			return
		}
		for _, s := range settings {
			if s.ok != nil && s.ok(s.at(&r.Config)) != nil {
				t.Errorf("%s was taken: %v", s.key, s.ok(s.at(&r.Config)))
			}
			if from := r.source[s.key]; from != "default" && !strings.HasPrefix(from, file+":") {
				t.Errorf("%s is said to come from %q", s.key, from)
			}
		}
		for i := range r.Queues {
			if o := r.Queues[i].wire(); o.Validate() != nil {
				t.Errorf("queue %q was taken: %v", r.Queues[i].Name, o.Validate())
			}
		}
		for i := range r.Hooks {
			if f := r.Hooks[i].check(r.Limits.MaxMessageBytes); f != nil {
				t.Errorf("hook %q was taken: %v", r.Hooks[i].Name, f)
			}
		}
	})
}
