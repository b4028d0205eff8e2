package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorate/quorate/client"
)

// pushFlags are a queue's options of push as flags.
type pushFlags struct {
	url                         string
	concurrency                 int64
	timeout                     millis
	secrets, permanent, headers []string
}

func (f *pushFlags) bind(fl *pflag.FlagSet) {
	fl.StringVar(&f.url, "push-url", "", "send the messages to this http or https URL by POST; \"\" to send them no longer (default: they are not sent)")
	fl.Int64Var(&f.concurrency, "push-concurrency", 0, "requests to --push-url at once, 1 to 256 (default 8)")
	fl.Var(&f.timeout, "push-timeout", "of one request to --push-url, 100ms to 10m (default 10s)")
	fl.StringSliceVar(&f.secrets, "push-secrets", nil, "names of secrets in the nodes' configuration (push.secrets) that sign what is sent, the newest first; \"\" for none")
	fl.StringSliceVar(&f.permanent, "push-permanent", nil, "answers after which a message is a dead letter at once, 400 to 499 but 429 (default 400,404,410,413,422)")
	fl.StringSliceVar(&f.headers, "push-headers", nil, "headers of a message that go along, such as traceparent; \"\" for none")
}

// options overlays the given flags on o.
func (f *pushFlags) options(given func(string) bool, o *client.QueueOptions) error {
	if given("push-url") {
		o.PushURL = f.url
	}
	if given("push-concurrency") {
		o.PushConcurrency = f.concurrency
	}
	if given("push-timeout") {
		o.PushTimeout = f.timeout.duration()
	}
	if given("push-secrets") {
		o.PushSecrets = f.secrets
	}
	if given("push-permanent") {
		o.PushPermanent = nil
		for _, text := range f.permanent {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if err != nil {
				return usagef("--push-permanent: %q is no status; numbers such as 400,410 would be right", text)
			}
			o.PushPermanent = append(o.PushPermanent, n)
		}
	}
	if given("push-headers") {
		o.PushHeaders = f.headers
	}
	return nil
}

// list is never null in JSON.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// atWork says of a queue's push or mapping that it works, where its state only repeats its name.
func atWork(state string) string {
	for _, name := range []string{"pushing", "mapping"} {
		if rest, ok := strings.CutPrefix(state, name); ok && (rest == "" || rest[0] == ';') {
			return "at work" + rest
		}
	}
	return state
}

// defaulted is a value of which 0 is the default.
func defaulted[T int64 | time.Duration](v T) string {
	if v == 0 {
		return "default"
	}
	return fmt.Sprint(v)
}

func statusesText(all []int64) string {
	if len(all) == 0 {
		return "default"
	}
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(texts, ",")
}
