package load

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat, USER_HZ, which is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// CPUOf returns a function that adds up the user and system time of processes so far, for Config.ServerCPU. It fails if
// one of them cannot be read now. One that has ended later keeps what it had when it was last looked at.
func CPUOf(pids ...int) (func() time.Duration, error) {
	last := make([]time.Duration, len(pids))
	read := func() (err error) {
		for i, pid := range pids {
			if d, e := processCPU(pid); e != nil {
				err = e
			} else {
				last[i] = d
			}
		}
		return err
	}
	if err := read(); err != nil {
		return nil, err
	}
	return func() time.Duration {
		_ = read() // what has ended keeps its last value
		var sum time.Duration
		for _, d := range last {
			sum += d
		}
		return sum
	}, nil
}

// processCPU reads fields 14 and 15 of /proc/PID/stat (proc(5)), utime and stime.
func processCPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	i := strings.LastIndexByte(string(b), ')') // the name, field 2, may hold anything
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 13 {
		return 0, fmt.Errorf("CPU time of process %d: /proc/%d/stat has %d fields after the name, 13 or more expected", pid, pid, len(f))
	}
	var sum int64
	for _, s := range f[11:13] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		sum += n
	}
	return time.Duration(sum) * tick, nil
}
