package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
