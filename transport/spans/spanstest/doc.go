// Package spanstest has a collector of spans for tests: it takes OTLP over HTTP in JSON on loopback, as nodes send it, and keeps what it is sent.
//
//	node ──POST /v1/traces──▶ Collector ── Spans, Named, Await ──▶ test
//
// It reads by opentelemetry-proto's JSON mapping and not by package spans, which it does not import: names that are not of that mapping, ids that are
// no hex of the right length, times that are no numbers in quotes, and spans that end before they begin, fail the test. It is bounded in bytes of a
// request and in spans; what passes these fails the test too.
package spanstest
