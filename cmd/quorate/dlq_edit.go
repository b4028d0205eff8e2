package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// editFlags are the fields that a requeue can set anew.
type editFlags struct {
	body, bodyFile, contentType, kind, key, retry, at string
	headers                                           []string
	priority                                          int
	ttl, timeout, delay                               millis
}

func (f *editFlags) bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.body, "body", "", "edit: another body")
	fl.StringVar(&f.bodyFile, "body-file", "", "edit: another body, from this file; - is standard input")
	fl.StringArrayVar(&f.headers, "set-header", nil, "edit: other headers, name=value; may be given more than once, empty for none")
	fl.IntVar(&f.priority, "priority", 4, "edit: another priority, 0 to 9")
	fl.StringVar(&f.contentType, "content-type", "", "edit: another content type")
	fl.StringVar(&f.kind, "set-kind", "", "edit: another task type")
	fl.StringVar(&f.key, "key", "", "edit: another ordering key")
	fl.Var(&f.ttl, "ttl", "edit: expires this long after now; 0 for never")
	fl.Var(&f.timeout, "timeout", "edit: how long one attempt may run in all; 0 for no limit")
	fl.StringVar(&f.retry, "retry", "", "edit: another retry policy, empty for the queue's: "+retryHelp)
	fl.Var(&f.delay, "delay", "edit: deliver no sooner than this from now")
	fl.StringVar(&f.at, "at", "", "edit: deliver no sooner than this time (RFC 3339)")
}

// edited is a field that was given, and by which flag.
type edited struct{ flag, field string }

// message is what the flags set, and which fields those are.
func (f *editFlags) message(c *cli, cmd *cobra.Command) (m client.Message, fields []edited, err error) {
	for _, e := range []edited{
		{"body", client.EditBody}, {"body-file", client.EditBody}, {"set-header", client.EditHeaders}, {"priority", client.EditPriority},
		{"content-type", client.EditContentType}, {"set-kind", client.EditKind}, {"key", client.EditKey}, {"ttl", client.EditTTL},
		{"timeout", client.EditTimeout}, {"retry", client.EditRetry}, {"delay", client.EditDelay}, {"at", client.EditDelay},
	} {
		if !cmd.Flags().Changed(e.flag) {
			continue
		}
		if n := len(fields); n > 0 && fields[n-1].field == e.field {
			return m, nil, usagef("give only one of --%s and --%s", fields[n-1].flag, e.flag)
		}
		fields = append(fields, e)
		switch e.flag {
		case "body":
			m.Body = []byte(f.body)
		case "body-file":
			if m.Body, err = f.read(c); err != nil {
				return m, nil, fmt.Errorf("read the body: %w", err)
			}
		case "set-header":
			for _, h := range f.headers {
				if h == "" && len(f.headers) == 1 {
					break
				}
				name, value, ok := strings.Cut(h, "=")
				if !ok {
					return m, nil, usagef("--set-header is %q, want name=value", h)
				}
				m.Headers = append(m.Headers, client.Header{Name: name, Value: value})
			}
		case "priority":
			m.Priority = client.Priority(f.priority)
		case "content-type":
			m.ContentType = f.contentType
		case "set-kind":
			m.Kind = f.kind
		case "key":
			m.Key = []byte(f.key)
		case "ttl":
			m.TTL = f.ttl.duration()
		case "timeout":
			m.Timeout = f.timeout.duration()
		case "retry":
			if f.retry != "" {
				if m.Retry, err = parseRetry(f.retry); err != nil {
					return m, nil, usagef("--%w", err)
				}
			}
		case "delay":
			m.Delay = f.delay.duration()
		case "at":
			if m.EnqueueAt, err = time.Parse(time.RFC3339, f.at); err != nil {
				return m, nil, usagef("--at is %q, want a time such as 2026-12-24T18:00:00Z", f.at)
			}
		}
	}
	return m, fields, nil
}

func (f *editFlags) read(c *cli) ([]byte, error) {
	if f.bodyFile == "-" {
		return io.ReadAll(c.stdin)
	}
	return os.ReadFile(f.bodyFile)
}
