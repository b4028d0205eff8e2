package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

// mappingFlags are a queue's schema and mappings as flags.
type mappingFlags struct{ schema, body, to string }

func (f *mappingFlags) bind(fl *pflag.FlagSet) {
	fl.StringVar(&f.schema, "schema", "", "JSON Schema that bodies have to fit: its file, or what begins with { is the schema itself; \"\" for none (default: anything is taken)")
	fl.StringVar(&f.body, "map", "", "expression that makes the body of what is sent to --push-url, such as '{id: body.order.id}'; \"\" for none (default: it is sent as it is)")
	fl.StringVar(&f.to, "map-to", "", "QUEUE=EXPRESSION: make messages for that queue of each message here, such as 'bills=body.paid ? {id: body.id} : nil', and ack it; \"\" for none (default: workers get the messages)")
}

// options overlays the given flags on o.
func (f *mappingFlags) options(given func(string) bool, o *client.QueueOptions) error {
	if given("schema") {
		o.Schema = f.schema
		if f.schema != "" && !strings.HasPrefix(strings.TrimSpace(f.schema), "{") {
			b, err := readBounded(f.schema, wire.MaxSchemaBytes)
			if err != nil {
				return usagef("--schema: %v", err)
			}
			o.Schema = string(b)
		}
	}
	if given("map") {
		o.Map = f.body
	}
	if given("map-to") {
		queue, expression, ok := strings.Cut(f.to, "=")
		if f.to != "" && (!ok || queue == "" || strings.TrimSpace(expression) == "") {
			return usagef("--map-to is %.80q, want QUEUE=EXPRESSION, such as 'bills={id: body.id}'", f.to)
		}
		o.MapTo = client.MapTo{Queue: queue, Expression: expression}
	}
	return nil
}

func mapToJSON(m client.MapTo) any {
	if m == (client.MapTo{}) {
		return nil
	}
	return map[string]any{"queue": m.Queue, "expression": m.Expression}
}

func mapToText(m client.MapTo) string {
	if m == (client.MapTo{}) {
		return ""
	}
	return m.Queue + "=" + m.Expression
}
