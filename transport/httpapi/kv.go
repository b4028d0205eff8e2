package httpapi

import (
	"strconv"

	"github.com/quorate/quorate/wire"
)

// Entry is a key of the KV and its value: the body of the message that died.
type Entry struct {
	Key           []string `json:"key" doc:"its strings, which are the parts of its path"`
	Value         Any      `json:"value,omitzero" required:"false" doc:"left out where it was not asked for"`
	ValueEncoding string   `json:"value_encoding,omitzero" required:"false" enum:"text,base64"`
	ValueBytes    int64    `json:"value_bytes"`
	MessageID     string   `json:"message_id,omitzero" required:"false" doc:"of the message that died"`
	Position      string   `json:"position" doc:"of the change: positions rise"`
	ChangedAt     int64    `json:"changed_at" doc:"Unix ms, log time"`
	EndsAt        int64    `json:"ends_at,omitzero" required:"false" doc:"from then on the key is gone"`
	Deleted       bool     `json:"deleted,omitzero" required:"false" doc:"in changes: the key is gone"`
	Expired       bool     `json:"expired,omitzero" required:"false" doc:"with deleted: by the end of its time"`
}

func entryOf(e *wire.KVEntry, values bool, want string) Entry {
	j := Entry{Key: e.Key, ValueBytes: e.ValueBytes, MessageID: e.MessageID, Position: strconv.FormatUint(e.Position, 10), ChangedAt: e.ChangedAt,
		EndsAt: e.EndsAt, Deleted: e.Deleted, Expired: e.Expired}
	if values && !e.Deleted {
		// The KV does not keep the content type: bytes that are text are shown as text.
		kind := "application/octet-stream"
		if plainText(e.Value) {
			kind = "text/plain"
		}
		j.Value, j.ValueEncoding = bodyJSON(e.Value, kind, want)
	}
	return j
}

func entriesOf(es []wire.KVEntry, values bool, want string) []Entry {
	js := make([]Entry, len(es))
	for i := range es {
		js[i] = entryOf(&es[i], values, want)
	}
	return js
}

type entriesAnswer struct {
	Entries  []Entry  `json:"entries"`
	Next     []string `json:"next,omitzero" required:"false" doc:"after of the next page, each string a parameter of its own; absent at the end"`
	Position string   `json:"position" doc:"of the last change when the page was begun: changes go on from there"`
}

type changesAnswer struct {
	Entries  []Entry `json:"entries" doc:"by position; none: none came within the wait"`
	Position string  `json:"position" doc:"from of the next call"`
}

func kvRoutes() []*route {
	const one = "/v1/kv/{key...}"
	prefix := param{name: "prefix", kind: "string", many: true, doc: "keys that begin with these strings, each a parameter of its own"}
	get := plain(route{method: "GET", path: one, summary: "One key; its strings are the parts of the path. Accept other than JSON gets the value alone, byte for byte",
		query: []param{staleParam, encodeParm}, also: []string{"application/octet-stream"}}, kvGet)
	get.serve = func(x *exchange) *wire.Fault {
		e, f := x.entry()
		if f != nil {
			return f
		}
		if x.wantsRaw() {
			x.bytes(e.Value, "")
			return nil
		}
		j := entryOf(e, true, x.query["body_encoding"])
		x.reply(&j)
		return nil
	}
	return []*route{
		get,
		plain(route{method: "DELETE", path: one, summary: "Delete a key"}, func(x *exchange) (*done, *wire.Fault) {
			return x.okay(wire.TypeKVDelete, &wire.KVDelete{Key: x.key})
		}),
		plain(route{method: "GET", path: "/v1/kv", summary: "List keys", query: []param{prefix, limitParam,
			{name: "after", kind: "string", many: true, doc: "next of the page before, each string a parameter of its own"},
			{name: "values", kind: "boolean", doc: "with values"}, staleParam, encodeParm}}, kvList),
		plain(route{method: "GET", path: "/v1/kv-changes", summary: "What has changed behind a position; waits for the first change as long as is asked for", query: []param{prefix, limitParam,
			{name: "from", kind: "integer", doc: "position of a list or of changes; absent: from now on"}, waitParam, encodeParm}}, kvChanges),
	}
}

func (x *exchange) entry() (*wire.KVEntry, *wire.Fault) {
	rep, f := call[wire.KVIs](x, wire.TypeKVGet, &wire.KVGet{Key: x.key, Stale: x.bool("stale")})
	if f != nil {
		return nil, f
	}
	return &rep.Entry, nil
}

func kvGet(x *exchange) (*Entry, *wire.Fault) {
	e, f := x.entry()
	if f != nil {
		return nil, f
	}
	j := entryOf(e, true, x.query["body_encoding"])
	return &j, nil
}

func kvList(x *exchange) (*entriesAnswer, *wire.Fault) {
	rep, f := call[wire.KVEntries](x, wire.TypeKVList, &wire.KVList{Prefix: x.queries["prefix"], After: x.queries["after"], Limit: int32(x.int("limit")),
		Values: x.bool("values"), Stale: x.bool("stale")})
	if f != nil {
		return nil, f
	}
	return &entriesAnswer{Entries: entriesOf(rep.Entries, x.bool("values"), x.query["body_encoding"]), Next: rep.Next, Position: strconv.FormatUint(rep.Position, 10)}, nil
}

func kvChanges(x *exchange) (*changesAnswer, *wire.Fault) {
	from, given := x.int("from"), x.query["from"] != ""
	if from < 0 {
		return nil, wire.Invalid("from", "%d; the position of a list or of changes would be right", from)
	}
	rep, f := call[wire.KVChanges](x, wire.TypeKVWatch, &wire.KVWatch{Prefix: x.queries["prefix"], From: uint64(from), Now: !given, Limit: int32(x.int("limit")), WaitMillis: x.int("wait_ms")})
	if f != nil {
		return nil, f
	}
	return &changesAnswer{Entries: entriesOf(rep.Entries, true, x.query["body_encoding"]), Position: strconv.FormatUint(rep.Position, 10)}, nil
}
