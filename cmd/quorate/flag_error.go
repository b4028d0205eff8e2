package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// flagsOf are the flags that a field of a request may have come from, where their names are not the field's.
var flagsOf = map[string][]string{
	"headers": {"header", "set-header"}, "keys-if-undelivered": {"key-if-undelivered"}, "enqueue-at": {"at"}, "wait": {"timeout"},
	"kind": {"set-kind"}, "body": {"file", "body-file"}, "output": {"result", "file"}, "result": {"result", "file", "content-type"},
	"delay": {"at"}, "started": {"prefetch"},
}

// flagged puts the flag before an error about a field of the request that the flag has set.
func flagged(cmd *cobra.Command, err error) error {
	var e *client.Error
	if !errors.As(err, &e) || e.Unknown || e.Field == "" || e.Code != client.ErrTooLarge.Code && e.Code != client.ErrInvalidArgument.Code {
		return err
	}
	field := e.Field
	if i := strings.IndexAny(field, ".["); i >= 0 {
		field = field[:i]
	}
	field = strings.ReplaceAll(strings.TrimSuffix(field, "_ms"), "_", "-")
	for _, name := range append([]string{field}, flagsOf[field]...) {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return &exitError{code: codeOf(err), err: fmt.Errorf("--%s: %w", name, err)}
		}
	}
	if f := cmd.Flags().Lookup("queue"); field == "queue" && f != nil && !f.Changed {
		return &exitError{code: codeOf(err), err: fmt.Errorf("--queue is needed: %w", err)}
	}
	return err
}
