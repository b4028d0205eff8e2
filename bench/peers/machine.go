package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// machine says where the figures come from.
type machine struct {
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	MemoryGB   float64 `json:"memory_gb"`
	Kernel     string  `json:"kernel"`
	FileSystem string  `json:"file_system"` // of the servers' data
	Go         string  `json:"go"`
	Commit     string  `json:"commit"` // of this tree
	LoadBefore string  `json:"load_average_before"`
	LoadAfter  string  `json:"load_average_after"`
}

func (m machine) String() string {
	return fmt.Sprintf("%d cores (%s), %.0f GB, Linux %s, data on %s, %s, commit %s", m.Cores, m.CPU, m.MemoryGB, m.Kernel, m.FileSystem, m.Go, m.Commit)
}

// machineFacts looks around. What cannot be found is "unknown": no figure depends on it.
func machineFacts(ctx context.Context, e *env) machine {
	m := machine{Cores: runtime.NumCPU(), Go: runtime.Version(), CPU: "unknown", Kernel: "unknown", Commit: "unknown", LoadBefore: loadAverage()}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = procField(string(b), "model name")
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if kb, err := strconv.ParseFloat(strings.TrimSuffix(procField(string(b), "MemTotal"), " kB"), 64); err == nil {
			m.MemoryGB = kb * 1024 / 1e9
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	m.FileSystem = fileSystem(e.data)
	if out, err := exec.CommandContext(ctx, "git", "-C", e.root, "describe", "--always", "--dirty", "--abbrev=10").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(out))
	}
	return m
}

// procField finds "name : value" in one of the tables of /proc (proc(5)), the first one.
func procField(table, name string) string {
	for _, line := range strings.Split(table, "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.Join(strings.Fields(v), " ")
		}
	}
	return "unknown"
}

// loadAverage is how many processes wanted to run on average in the last minute.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

func fileSystem(dir string) string {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "unknown"
	}
	if name, ok := fileSystems[int64(st.Type)]; ok { //nolint:unconvert // not int64 on every architecture
		return name
	}
	return fmt.Sprintf("file system %#x", st.Type)
}

// fileSystems are names of statfs(2)'s f_type.
var fileSystems = map[int64]string{0xEF53: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x794C7630: "overlayfs", 0x2FC12FC1: "zfs"}

// findRoot is the folder of the product's module, which this module's replace directive names.
func findRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/quorate/quorate").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository (run this in bench/peers): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
