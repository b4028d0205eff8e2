package main

import (
	"bytes"
	"os"
	"strconv"
)

// memoryShare is how much of the machine's memory, or of its cgroup's limit where that is less, the messages and tables of a
// node may hold by default, in percent.
const memoryShare = 70

// memoryLimit is limits.memory_bytes as given, or the default for this machine; 0, no limit, where nothing can be found out.
func memoryLimit(given int64) int64 {
	if given > 0 {
		return given
	}
	return machineMemory("/proc/meminfo", "/sys/fs/cgroup/memory.max") / 100 * memoryShare
}

// machineMemory reads the bytes that there are from meminfo and a cgroup's memory.max; 0: unknown.
func machineMemory(meminfo, cgroup string) (total int64) {
	if b, err := os.ReadFile(meminfo); err == nil {
		for line := range bytes.Lines(b) {
			if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == "MemTotal:" {
				if kib, err := strconv.ParseInt(string(f[1]), 10, 53); err == nil {
					total = kib << 10
				}
			}
		}
	}
	if b, err := os.ReadFile(cgroup); err == nil { // "max" where there is no limit
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil && n > 0 && (total == 0 || n < total) {
			total = n
		}
	}
	return total
}
