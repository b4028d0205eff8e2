package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
)

const retryHelp = "schedule:1s,5s,10s | fixed:5s*3 | linear:1s..60s*5 | exponential:1s..60s*5, then +jitter:250ms if wanted"

// parseRetry reads a retry SPEC: kind:initial..max*attempts, or schedule:step,step,…, with +jitter:d after it.
func parseRetry(spec string) (*client.RetryPolicy, error) {
	wrong := func(why string) (*client.RetryPolicy, error) {
		return nil, fmt.Errorf("retry %q: %s; want %s", spec, why, retryHelp)
	}
	body, jitter, hasJitter := strings.Cut(spec, "+jitter:")
	kind, rest, ok := strings.Cut(body, ":")
	if !ok {
		return wrong("there is no colon after the kind")
	}
	p := &client.RetryPolicy{Kind: kind}
	var err error
	if hasJitter {
		if p.Jitter, err = parseDelay(jitter); err != nil {
			return wrong("jitter " + err.Error())
		}
	}
	if kind == "schedule" {
		for _, s := range strings.Split(rest, ",") {
			ms, err := parseDelay(strings.TrimSpace(s))
			if err != nil {
				return wrong("step " + err.Error())
			}
			p.Steps = append(p.Steps, ms)
		}
		return p, nil
	}
	span, attempts, ok := strings.Cut(rest, "*")
	if !ok {
		return wrong("there is no *attempts at the end")
	}
	n, err := strconv.Atoi(attempts)
	if err != nil || n < 1 || n > 1000 {
		return wrong(fmt.Sprintf("attempts are %q, want 1 to 1000", attempts))
	}
	p.MaxAttempts = n
	from, to, ranged := strings.Cut(span, "..")
	if p.Initial, err = parseDelay(from); err != nil {
		return wrong(err.Error())
	}
	switch {
	case kind == "fixed" && ranged:
		return wrong("fixed takes one delay")
	case kind == "fixed":
		return p, nil
	case kind != "linear" && kind != "exponential":
		return wrong(fmt.Sprintf("there is no kind %q", kind))
	case !ranged:
		return wrong(kind + " takes initial..max")
	}
	if p.Max, err = parseDelay(to); err != nil {
		return wrong(err.Error())
	}
	return p, nil
}

// formatRetry is the inverse of parseRetry.
func formatRetry(p *client.RetryPolicy) string {
	if p == nil {
		return ""
	}
	d := time.Duration.String
	var s string
	switch p.Kind {
	case "schedule":
		steps := make([]string, len(p.Steps))
		for i, v := range p.Steps {
			steps[i] = d(v)
		}
		s = "schedule:" + strings.Join(steps, ",")
	case "fixed":
		s = fmt.Sprintf("fixed:%s*%d", d(p.Initial), p.MaxAttempts)
	default:
		s = fmt.Sprintf("%s:%s..%s*%d", p.Kind, d(p.Initial), d(p.Max), p.MaxAttempts)
	}
	if p.Jitter > 0 {
		s += "+jitter:" + d(p.Jitter)
	}
	return s
}

// parseDelay is parseMillis as a duration.
func parseDelay(s string) (time.Duration, error) {
	ms, err := parseMillis(s)
	return time.Duration(ms) * time.Millisecond, err
}
