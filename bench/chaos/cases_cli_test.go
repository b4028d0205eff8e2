package chaos

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// ran is how a command ended.
type ran struct {
	stdout, stderr string
	code           int
}

// quorate runs the binary to its end, at most a minute.
func quorate(t *testing.T, addrs []string, args ...string) ran {
	t.Helper()
	cmd := exec.CommandContext(within(t, time.Minute), quorateBin, args...)
	cmd.Env = append(cmd.Environ(), "QUORATE_ADDR="+strings.Join(addrs, ","))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ran{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}
