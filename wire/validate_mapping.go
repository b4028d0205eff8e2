package wire

import "unicode/utf8"

// validateMapping judges schema and mappings, each by itself, as far as their lengths and names go: what they mean is for the server.
func (o *QueueOptions) validateMapping() *Fault {
	if f := first(longText("schema", o.Schema, MaxSchemaBytes), longText("map", o.Map, MaxExpressionBytes)); f != nil || o.MapTo == nil {
		return f
	}
	switch to := o.MapTo; {
	case to.Queue == "":
		return Invalid("map_to.queue", "missing; the name of another one, for which the messages are made, would be right")
	case to.Expression == "":
		return Invalid("map_to.expression", "missing; one such as body, or {id: body.id}, would be right")
	default:
		return first(CheckQueue("map_to.queue", to.Queue), longText("map_to.expression", to.Expression, MaxExpressionBytes))
	}
}

// longText judges a text that may be long and may be missing.
func longText(field, s string, most int) *Fault {
	switch {
	case len(s) > most:
		return Invalid(field, "%d bytes; at most %d are allowed", len(s), most)
	case !utf8.ValidString(s):
		return Invalid(field, "it is not UTF-8; text would be right")
	}
	return nil
}

// contradictMapping judges what map_to does not go with.
func (o *QueueOptions) contradictMapping() *Fault {
	switch {
	case o.MapTo == nil:
	case o.PushURL != "":
		return Invalid("map_to", "it does not go with push_url: messages go one way; map makes the body of a push")
	case o.Delivery == DeliverAtMostOnce:
		return Invalid("map_to", "it does not go with delivery %s, where an ack enqueues nothing", DeliverAtMostOnce)
	}
	return nil
}
