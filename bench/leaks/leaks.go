// Package leaks fails a package's tests when they leave goroutines behind.
//
// goleak looks for less than half a second. What a test has ended in order goes within moments, but on a machine that is busy with
// other packages' tests a moment may be longer than that; so it is given time, and only what stays is a leak.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end after the last test. One that leaks stays for ever.
const patience = 10 * time.Second

// Main runs a package's tests, looks for goroutines that are left when all have passed, and ends the process. It is for TestMain.
func Main(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find(options...)
		for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
			err = goleak.Find(options...) // which itself looks some times
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "the tests have passed and left goroutines behind: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}
