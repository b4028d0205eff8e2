package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if c.asJSON() {
				return c.json(map[string]string{"version": version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			}
			fmt.Fprint(c.stdout, versionLine())
			return nil
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("quorate %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
