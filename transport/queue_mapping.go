package transport

import (
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/mapping"
	"github.com/quorate/quorate/transport/schema"
	"github.com/quorate/quorate/wire"
)

// mappingOptionsOf takes in schema and mappings.
func mappingOptionsOf(q *fsm.QueueOptions, o *wire.QueueOptions) {
	q.Schema, q.Map = o.Schema, o.Map
	if o.MapTo != nil {
		q.MapTo = fsm.MapTo{Queue: o.MapTo.Queue, Expression: o.MapTo.Expression}
	}
}

func wireMapTo(m fsm.MapTo) *wire.MapTo {
	if m == (fsm.MapTo{}) {
		return nil
	}
	return &wire.MapTo{Queue: m.Queue, Expression: m.Expression}
}

// CheckMapping judges what a schema and expressions mean, where wire judges their lengths.
func CheckMapping(o *wire.QueueOptions) *wire.Fault {
	if o.Schema != "" {
		if _, err := schema.Compile(o.Schema); err != nil {
			return wire.Invalid("schema", "%v", err)
		}
	}
	if o.Map != "" {
		if _, err := mapping.Compile(o.Map, mapping.Body); err != nil {
			return wire.Invalid("map", "%v", err)
		}
	}
	if o.MapTo != nil {
		if _, err := mapping.Compile(o.MapTo.Expression, mapping.Messages); err != nil {
			return wire.Invalid("map_to", "%v", err)
		}
	}
	return nil
}
