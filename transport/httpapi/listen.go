package httpapi

import (
	"strconv"
	"time"

	"github.com/quorate/quorate/wire"
)

// prefetchDefault is how many messages a listener has out at most, where he does not say.
const prefetchDefault = 10

var listenParams = []param{
	{name: "prefetch", kind: "integer", least: 1, most: wire.MaxCredit, doc: "messages out at once: another comes when one has been acked, nacked or released, or its lease has run out; absent: 10"},
	{name: "lease_ms", kind: "integer", least: wire.MinLeaseMillis, most: wire.MaxLeaseMillis, doc: "absent: the queue's"},
	{name: "worker", kind: "string", doc: "host:pid:index by custom"},
}

// subscription is what a listener asks for.
func (x *exchange) subscription(queue string) *wire.Subscribe {
	s := &wire.Subscribe{Sub: 1, Queue: queue, Credit: int32(x.int("prefetch")), LeaseMillis: x.int("lease_ms"), Worker: x.query["worker"]}
	if s.Credit == 0 {
		s.Credit = prefetchDefault
	}
	return s
}

func listenRoutes() []*route {
	return []*route{
		{method: "GET", path: "/v1/queues/{q}/listen", stream: true, secret: true, query: append(append([]param{}, listenParams...), encodeParm, jobParam),
			summary: "Messages as they come, as Server-Sent Events: message (id: the message's, data: as of a lease), lease_gone and lease_cancelled (data: tokens), ping, " +
				"and end (data: a problem) before the node ends the stream, after which to connect again. When it is closed, what was not answered goes back at once, as a failed attempt where it had been sent",
			serve: func(x *exchange) *wire.Fault {
				want := x.query["body_encoding"]
				return x.listen(x.subscription(x.path["q"]), func(d *wire.Delivered) any {
					if x.query["envelope"] == "job" {
						return jobLeased(d, want)
					}
					l := leasedOf(d, want)
					return &l
				})
			}},
		{method: "GET", path: "/queue/listen", stream: true, secret: true, query: append([]param{oneQueueParam}, listenParams...),
			summary: "One queue: messages as they come, as Server-Sent Events: message (data: id, value, attempts), ping, and end. When it is closed, what was not answered goes back at once, as a failed attempt",
			serve: func(x *exchange) *wire.Fault {
				return x.listen(x.subscription(x.one()), func(d *wire.Delivered) any { return oneMessageOf(d) })
			}},
		{method: "GET", path: "/v1/results/stream", stream: true, serve: (*exchange).followResults, query: []param{
			{name: "queue", kind: "string", doc: "whose results; needed"}, {name: "kind", kind: "string", doc: "only this one"},
			{name: "after", kind: "string", doc: "position, or next of a page: those behind it; Last-Event-ID goes before it"},
			{name: "last", kind: "boolean", doc: "only what is recorded from now on"}, encodeParm,
		},
			summary: "A queue's results in the order of recording, as Server-Sent Events: result (id: its position, data: as in a list), ping (id: up to where all has been seen), and end. " +
				"Whoever connects again with Last-Event-ID misses none and gets none twice"},
		{method: "GET", path: "/v1/queues/{q}/dlq/stream", stream: true, serve: (*exchange).followDead, query: append([]param{
			{name: "after", kind: "string", doc: "id of an event, or next of a page: those behind it; Last-Event-ID goes before it"},
			{name: "last", kind: "boolean", doc: "only what dies from now on"}, encodeParm,
		}, filterParams...),
			summary: "A queue's dead letters by the time they died, as Server-Sent Events: dead (id: where it stands, data: the letter), ping (id: up to where all has been seen), and end. " +
				"Whoever connects again with Last-Event-ID misses none, and may get those of the same millisecond twice"},
	}
}

// followResults streams a queue's results. Whatever else listens, each stream has all of them.
func (x *exchange) followResults() *wire.Fault {
	req := &wire.ResultList{Queue: x.query["queue"], Kind: x.query["kind"], Last: x.bool("last")}
	if f := x.resumed(req); f != nil {
		return f
	}
	var e *events
	for {
		rep, f := call[wire.Results](x, wire.TypeResultList, req)
		gone := x.r.Context().Err() != nil
		switch {
		case gone:
			return nil
		case f != nil && e == nil:
			return f
		case f != nil:
			e.end(f)
			return nil
		}
		at := strconv.FormatUint(rep.Next, 10)
		if e == nil {
			from := at
			if !req.Last {
				from = strconv.FormatUint(req.After, 10)
			}
			e = x.begin(from)
		}
		req.After, req.Last, req.WaitMillis = rep.Next, false, x.api.cfg.PingEvery.Milliseconds()
		if f := x.passResults(e, rep); f != nil {
			e.end(f)
			return nil
		}
		switch {
		case e.gone:
			return nil
		case len(rep.Results) == 0 && !rep.More && x.api.drained.Err() == nil:
			e.rest(at)
		case x.ctx.Err() != nil:
			e.end(stopping())
			return nil
		}
	}
}

// resumed finds out where a stream of results goes on.
func (x *exchange) resumed(req *wire.ResultList) *wire.Fault {
	at, from := x.query["after"], "after"
	if id := x.r.Header.Get("Last-Event-ID"); id != "" {
		at, from, req.Last = id, "Last-Event-ID", false
	}
	if at == "" {
		return nil
	}
	var err error
	if req.After, err = strconv.ParseUint(at, 10, 64); err != nil {
		return wire.Invalid(from, "%.40q; the id of an event, or next of a page, would be right", at)
	}
	return nil
}

// unread counts a page among the large answers while it is not read.
func (x *exchange) unread(size int) (done func(), f *wire.Fault) {
	n := int64(size)
	if n < answersLarge {
		return func() {}, nil
	}
	if !x.api.answers.take(n) {
		return nil, later(wire.NewFault(wire.CodeOverloaded, "answers of %d bytes wait to be read, as many as may: connect again", x.api.answers.most), retryMillis*time.Millisecond)
	}
	return func() { x.api.answers.give(n) }, nil
}

// passResults writes a page.
func (x *exchange) passResults(e *events, rep *wire.Results) *wire.Fault {
	if len(rep.Results) == 0 {
		return nil
	}
	size := 0
	for i := range rep.Results {
		size += len(rep.Results[i].Result.Output)
	}
	done, f := x.unread(size)
	if f != nil {
		return f
	}
	defer done()
	for i := range rep.Results {
		r := recordedOf(&rep.Results[i], x.query["body_encoding"])
		e.add(eventResult, r.Position, &r)
		if e.gone {
			return nil
		}
	}
	e.flush()
	return nil
}
