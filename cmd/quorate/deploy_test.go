package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// deployFiles is where the files for installations are, as seen from this package.
const deployFiles = "../../scripts/deploy"

// The example configurations are accepted as they are, and say where the package expects data.
func TestExampleConfigurations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(deployFiles, "*.toml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("examples are %v, %v", files, err)
	}
	for _, file := range files {
		code, out, errs := cliRun(t, defaultAddr, "", "serve", "--config", file, "--print-config")
		if code != 0 || !strings.Contains(out, `data_dir = "/var/lib/quorate`) {
			t.Errorf("%s: ended with %d: %s%s", file, code, out, errs)
		}
	}
}

// The reference has every setting, and says of each what it is where nothing is said.
func TestReferenceConfiguration(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(deployFiles, "reference.toml"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := resolveWith(t, string(b), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{"node_id": true, "data_dir": true} // which are the machine's, or the node's
	def := defaults()
	for _, s := range settings {
		if r.source[s.key] == "default" {
			t.Errorf("%s is not in it", s.key)
		}
		if got, want := s.text(&r.Config), s.text(&def); got != want && !own[s.key] {
			t.Errorf("%s is %s in it, and %s where nothing is said", s.key, got, want)
		}
	}
	if len(r.Queues) == 0 || r.Queues[0].Retry == nil || len(r.Schedules) == 0 || len(r.Hooks) == 0 {
		t.Error("a kind of table is missing")
	}
	env := map[string]string{"GITHUB_WEBHOOK_SECRET": "a", "BILLING_NEW": "b", "BILLING_OLD": "c"}
	if _, _, err := r.hooks(func(k string) (string, bool) { v, ok := env[k]; return v, ok }); err != nil {
		t.Error(err)
	}
}

// composed is what compose.yaml says, as far as it is looked at.
type composed struct {
	Services map[string]struct {
		Image       string
		NetworkMode string `yaml:"network_mode"`
		Command     []string
		Volumes     []string
		Healthcheck struct{ Test []string }
		Ulimits     map[string]any
	}
	Volumes map[string]any
}

// The services' commands and health checks are ones that the program knows; what they mount is there, each node has a volume of its own, and the
// image that they run has the program where they look for it.
func TestCompose(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(deployFiles, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c composed
	if err := yaml.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(filepath.Join(deployFiles, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile(`(?m)^ENTRYPOINT \["([^"]+)"\]$`).FindSubmatch(image)
	data := regexp.MustCompile(`(?m)^VOLUME (\S+)$`).FindSubmatch(image)
	if program == nil || data == nil || len(c.Services) != 3 {
		t.Fatalf("%d services, program %s, data %s", len(c.Services), program, data)
	}
	volumes := map[string]bool{}
	for name, s := range c.Services {
		if s.Image != "localhost/quorate:latest" || s.NetworkMode != "host" {
			t.Errorf("%s runs %s on network %q", name, s.Image, s.NetworkMode)
		}
		if len(s.Ulimits) > 0 {
			t.Errorf("%s asks for %v: an engine that has less does not start it", name, s.Ulimits)
		}
		args := s.Command
		for _, v := range s.Volumes {
			from, to, _ := strings.Cut(v, ":")
			if file, ro := strings.CutSuffix(to, ":ro"); ro {
				from = filepath.Join(deployFiles, from)
				if _, err := os.Stat(from); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				for i := range args {
					args[i] = strings.Replace(args[i], file, from, 1)
				}
				continue
			}
			if _, declared := c.Volumes[from]; !declared || volumes[from] || to != string(data[1]) {
				t.Errorf("%s has its data in %s at %s: %t, %t", name, from, to, declared, volumes[from])
			}
			volumes[from] = true
		}
		code, out, errs := cliRun(t, defaultAddr, "", append(args, "--print-config")...)
		if code != 0 || !strings.Contains(out, `data_dir = "`+string(data[1])+`"`) || !strings.Contains(out, `node_id = "`+name+`"`) {
			t.Errorf("%s: %v ended with %d: %s%s", name, args, code, out, errs)
		}
		// Whether it is well is for a test with nodes; that it is no wrong use shows without.
		test := s.Healthcheck.Test
		if len(test) < 3 || test[0] != "CMD" || test[1] != string(program[1]) {
			t.Errorf("%s is checked by %v", name, test)
			continue
		}
		if code, out, errs := cliRun(t, "", "", append(test[2:], "--help")...); code != 0 {
			t.Errorf("%s: %v ended with %d: %s%s", name, test, code, out, errs)
		}
	}
}

// What the image is built from is a folder with all that its recipe copies, and the program in it needs nothing else.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	t.Parallel()
	certificates, dir := filepath.Join(t.TempDir(), "bundle"), t.TempDir()
	if err := os.WriteFile(certificates, []byte("certificates"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(deployFiles, "build-image"), "1.2.3", dir)
	cmd.Env = append(os.Environ(), "QUORATE_CERTIFICATES="+certificates)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build-image: %v\n%s", err, out)
	}
	if sh, err := filepath.EvalSymlinks("/bin/sh"); err == nil && dynamic(t, sh) { // nothing in the image could load its libraries
		cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(deployFiles, "build-image"), "1.2.3", t.TempDir())
		cmd.Env = append(os.Environ(), "QUORATE_CERTIFICATES="+certificates, "QUORATE_BINARY="+sh)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "not static") {
			t.Errorf("a binary with libraries: %v\n%s", err, out)
		}
	}
	recipe, err := os.ReadFile(filepath.Join(dir, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	copies := regexp.MustCompile(`(?m)^COPY (?:--\S+ )?(\S+) (\S+)$`).FindAllStringSubmatch(string(recipe), -1)
	if len(copies) < 3 || !strings.Contains(string(recipe), "FROM scratch\n") {
		t.Fatalf("the recipe is %s", recipe)
	}
	for _, m := range copies {
		if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
			t.Error(err)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "data")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("data: %v, %v", st, err)
	}
	if dynamic(t, filepath.Join(dir, "quorate")) {
		t.Error("the program is not static: there is nothing in the image that could load what it needs")
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "quorate"), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1.2.3") {
		t.Errorf("version: %v: %s", err, out)
	}
}

// dynamic says whether a program needs something that loads its libraries.
func dynamic(t *testing.T, program string) bool {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// installed builds the package and installs it into a folder.
func installed(t *testing.T) (root string, dpkg func(args ...string) string) {
	t.Helper()
	for _, program := range []string{"dpkg-deb", "dpkg", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not here: packages are built on Debian and its kin", program)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("dpkg installs as root only")
	}
	run := func(name string, args ...string) string {
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	deb := strings.TrimSpace(run("bash", filepath.Join(deployFiles, "build-deb"), "1.2.3", t.TempDir()))
	root = t.TempDir()
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg = func(args ...string) string {
		return run("dpkg", append([]string{"--root=" + root, "--force-script-chrootless", "--force-depends"}, args...)...)
	}
	dpkg("--install", deb)
	return root, dpkg
}

// The package can be installed, its program runs and takes its configuration, its unit is right to systemd, and when it goes
// the configuration stays until it is purged and the data after that.
func TestPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and installs a package")
	}
	t.Parallel()
	root, dpkg := installed(t)
	at := func(path string) string { return filepath.Join(root, path) }
	there := func(path string) bool { _, err := os.Stat(at(path)); return err == nil }

	out, err := exec.CommandContext(t.Context(), at("usr/bin/quorate"), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1.2.3") {
		t.Errorf("version: %v: %s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), at("usr/bin/quorate"), "serve", "--config", at("etc/quorate/quorate.toml"), "--print-config").CombinedOutput()
	if err != nil {
		t.Errorf("print-config: %v: %s", err, out)
	}
	verifyUnit(t, at("lib/systemd/system/quorate.service"), at("usr/bin/quorate"))

	data := "var/lib/quorate/raft.wal"
	if err := os.MkdirAll(filepath.Dir(at(data)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at(data), []byte("messages"), 0o600); err != nil {
		t.Fatal(err)
	}
	dpkg("--remove", "quorate")
	if there("usr/bin/quorate") || !there("etc/quorate/quorate.toml") || !there(data) {
		t.Error("removal takes the program and nothing else")
	}
	if said := dpkg("--purge", "quorate"); there("etc/quorate/quorate.toml") || !there(data) || !strings.Contains(said, "/var/lib/quorate") {
		t.Errorf("purge takes the configuration, leaves the data and says so; it said: %s", said)
	}
}

// verifyUnit has systemd judge a unit whose program is binary for now.
func verifyUnit(t *testing.T, unit, binary string) {
	t.Helper()
	b, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), "ExecStart=/usr/bin/quorate ", "ExecStart="+binary+" ", 1)
	if text == string(b) {
		t.Errorf("the unit does not start /usr/bin/quorate")
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is not here: the unit is not verified")
		return
	}
	file := filepath.Join(t.TempDir(), "quorate.service")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", file).CombinedOutput(); err != nil || strings.Contains(string(out), "quorate.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
