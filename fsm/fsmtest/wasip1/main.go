// Command wasip1 runs a test binary that was built for GOOS=wasip1 GOARCH=wasm, with the working directory as its root:
//
//	GOOS=wasip1 GOARCH=wasm go test -c -o fsmtest.wasm ./fsm/fsmtest
//	cd fsm/fsmtest && go run ./wasip1 ../../fsmtest.wasm -test.v -test.run Golden
//
// It ends with the status of the binary. It is how fsm is shown to come to the same states on a second architecture.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: wasip1 FILE.wasm [flags of the test binary]")
		os.Exit(2)
	}
	err := run(context.Background(), os.Args[1], os.Args[1:])
	var exit *sys.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		os.Exit(int(exit.ExitCode()))
	default:
		fmt.Fprintln(os.Stderr, "wasip1:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string, args []string) error {
	code, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	rt := wazero.NewRuntime(ctx)
	defer func() { _ = rt.Close(ctx) }() // the process ends with it
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, rt); err != nil {
		return err
	}
	_, err = rt.InstantiateWithConfig(ctx, code, wazero.NewModuleConfig().WithArgs(args...).WithStdout(os.Stdout).WithStderr(os.Stderr).
		WithEnv("PWD", "/").WithFSConfig(wazero.NewFSConfig().WithReadOnlyDirMount(".", "/")).
		WithSysWalltime().WithSysNanotime().WithSysNanosleep())
	return err
}
