package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/quorate/quorate/wire"
)

// Feed is a subscription of one caller. One goroutine uses it.
type Feed interface {
	// Wake has something when there may be something to Take.
	Wake() <-chan struct{}
	// Take gives what has come since: a *wire.Delivery, *wire.LeaseGone, *wire.LeaseCancelled or *wire.Redirect each. over: nothing comes
	// after it.
	Take() (got []any, over bool)
	// Sends says which leases are about to be written, of what is not delivered at most once: from here on they cost an attempt if nobody answers.
	Sends(tokens ...string)
	// Written says that what was taken has been written. once are the tokens in it of what is delivered at most once.
	Written(once ...string)
	// Close ends the subscription and gives back what has not been answered: at no cost what was never sent. Twice is fine.
	Close()
}

const (
	eventStream = "text/event-stream"

	// retryMillis is how long a browser waits before it connects again.
	retryMillis = 1000
	// eventsAtOnce is from how many bytes on events are written before the next one is made.
	eventsAtOnce = 32 << 10
	// elsewhere is how long a stream waits before it looks again for a leader.
	elsewhere = 50 * time.Millisecond
)

// Names of events. A browser hands over only those that somebody listens to.
const (
	eventMessage   = "message"
	eventResult    = "result"
	eventDead      = "dead"
	eventGone      = "lease_gone"
	eventCancelled = "lease_cancelled"
	eventPing      = "ping"
	eventEnd       = "end"
)

// tokensEvent is the data of lease_gone and lease_cancelled.
type tokensEvent struct {
	Tokens []string `json:"tokens"`
}

// appendEvent adds one event. Its data are cut where they have line ends, each of which would end a field.
func appendEvent(b []byte, name, id string, data []byte) []byte {
	b = append(append(append(b, "event: "...), name...), '\n')
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	for {
		n := bytes.IndexAny(data, "\r\n")
		if n < 0 {
			return append(append(append(b, "data: "...), data...), "\n\n"...)
		}
		b = append(append(append(b, "data: "...), data[:n]...), '\n')
		if data[n] == '\r' && n+1 < len(data) && data[n+1] == '\n' {
			n++
		}
		data = data[n+1:]
	}
}

// events is an answer that goes on, event by event.
type events struct {
	x    *exchange
	buf  []byte
	gone bool // the caller, or he reads too slowly: nothing can be written any more
}

// takeSeat counts the request among the streams from here on, and no longer among the requests that are answered one by one.
func (x *exchange) takeSeat() *wire.Fault {
	a := x.api
	if n := a.streams.Add(1); n > int64(a.cfg.MaxStreams) {
		a.streams.Add(-1)
		return later(wire.NewFault(wire.CodeOverloaded, "this node has %d streams open and no more: try again, or ask another", a.cfg.MaxStreams), 5*time.Second)
	}
	x.place.Add(-1)
	x.place = &a.streams
	a.bodies.give(x.held)
	x.held, x.body = 0, nil
	return nil
}

// begin answers 200 and says that events follow. id is where whoever has seen none of them goes on; "": there is no such place.
func (x *exchange) begin(id string) *events {
	if x.api.cfg.Streams != nil {
		x.api.cfg.Streams(x.r)
	}
	h := x.w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("X-Accel-Buffering", "no") // or proxies of one kind keep events until they have enough
	x.status = http.StatusOK
	e := &events{x: x}
	if x.r.Method == http.MethodHead {
		x.w.WriteHeader(x.status)
		e.gone = true
		return e
	}
	e.buf = append(strconv.AppendInt(append(e.buf, "retry: "...), retryMillis, 10), '\n')
	if id != "" {
		e.buf = append(append(append(e.buf, "id: "...), id...), '\n')
	}
	e.buf = append(e.buf, '\n')
	x.w.WriteHeader(x.status)
	e.flush()
	return e
}

// add makes an event. It is written when there is enough, or by flush.
func (e *events) add(name, id string, v any) {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		e.x.api.log.Error("an event that is no JSON", "op", e.x.route.path, "err", err)
		e.gone = true
		return
	}
	e.buf = appendEvent(e.buf, name, id, data)
	if len(e.buf) >= eventsAtOnce {
		e.write(e.buf)
		e.buf = nil // the streams of a node are many, and most of them rest
	}
}

// flush writes what there is.
func (e *events) flush() {
	if len(e.buf) > 0 {
		e.write(e.buf)
	}
	e.buf = nil
	if !e.gone && e.x.control.Flush() != nil {
		e.gone = true
	}
}

// write writes within the time that one write may take: whoever reads more slowly than that is cut off.
func (e *events) write(b []byte) {
	if e.gone {
		return
	}
	_ = e.x.control.SetWriteDeadline(time.Now().Add(e.x.api.cfg.EventTimeout)) // without deadlines there are none to move
	if _, err := e.x.w.Write(b); err != nil {
		e.gone = true
		if e.x.api.cfg.Stalled != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			e.x.api.cfg.Stalled()
		}
	}
}

// pingEvent is what a ping says.
type pingEvent struct {
	At int64 `json:"at" doc:"Unix ms"`
}

// rest tells the caller, and whatever is between, that the stream lives.
func (e *events) rest(id string) {
	e.add(eventPing, id, &pingEvent{At: time.Now().UnixMilli()})
	e.flush()
}

// end says why the stream ends. A browser connects again by itself, and so should others.
func (e *events) end(f *wire.Fault) {
	if f.Code == wire.CodeNotLeader { // whoever connects again here is sent on
		g := *f
		g.Code = wire.CodeNoLeader
		f = &g
	}
	e.add(eventEnd, "", ProblemOf(f, e.x.id))
	e.flush()
}

func stopping() *wire.Fault {
	return later(wire.NewFault(wire.CodeNoLeader, "this node is stopping: connect again, to another node if you know one"), retryMillis*time.Millisecond)
}

// redirected is the fault that a redirect stands for.
func redirected(r *wire.Redirect) *wire.Fault {
	if r.Reason == "stopping" {
		return stopping()
	}
	f := later(wire.NewFault(wire.CodeNoLeader, "leadership has moved: connect again. Tokens of the messages that you have stay good until their leases end"), retryMillis*time.Millisecond)
	f.Leader = r.Leader
	return f
}

// listen streams a subscription. message gives the data of a message.
func (x *exchange) listen(req *wire.Subscribe, message func(*wire.Delivered) any) *wire.Fault {
	if x.r.Method == http.MethodHead { // it wants to know what there is, and no messages
		if f := req.Validate(); f != nil {
			return f
		}
		x.begin("")
		return nil
	}
	feed, f := x.api.cfg.Node.Listen(x.ctx, req)
	if f != nil {
		return f
	}
	defer feed.Close()
	e := x.begin("")
	ping := time.NewTicker(x.api.cfg.PingEvery)
	defer ping.Stop()
	for !e.gone {
		select {
		case <-feed.Wake():
			got, over := feed.Take()
			if end := x.pass(e, feed, got, message); end != nil {
				feed.Close()
				e.end(end)
				return nil
			}
			if over { // the caller has not read for too long
				return nil
			}
		case <-ping.C:
			e.rest("")
		case <-x.ctx.Done():
			feed.Close() // before the word, for which it may take long to be read
			if x.r.Context().Err() == nil {
				e.end(stopping())
			}
			return nil
		}
	}
	return nil
}

// pass writes what a feed gave, and returns why it ends, if it does.
func (x *exchange) pass(e *events, feed Feed, got []any, message func(*wire.Delivered) any) (end *wire.Fault) {
	var once, sent []string
	for i, b := range got {
		got[i] = nil
		switch b := b.(type) {
		case *wire.Delivery:
			sent = sent[:0]
			for j := range b.Messages {
				if !b.Messages[j].AtMostOnce {
					sent = append(sent, b.Messages[j].Token)
				}
			}
			feed.Sends(sent...)
			for j := 0; j < len(b.Messages) && !e.gone; j++ {
				d := &b.Messages[j]
				e.add(eventMessage, d.ID, message(d))
				if d.AtMostOnce {
					once = append(once, d.Token)
				}
				*d = wire.Delivered{} // it is in the buffer, or on its way
			}
		case *wire.LeaseGone:
			e.add(eventGone, "", &tokensEvent{b.Tokens})
		case *wire.LeaseCancelled:
			e.add(eventCancelled, "", &tokensEvent{b.Tokens})
		case *wire.Redirect:
			end = redirected(b)
		case *wire.Fault:
			end = b
		}
		if e.gone {
			return nil
		}
	}
	e.flush()
	if !e.gone {
		feed.Written(once...)
	}
	return end
}

// passes says whether a stream could not begin for a reason that passes by itself. A browser's EventSource takes any refusal for the last word, and
// would not outlive an election. For requests that another node has sent on, that node sees to it.
func (x *exchange) passes(f *wire.Fault) bool {
	return x.route.stream && passing(f.Code) && x.r.Header.Get(hopHeader) == ""
}

// passing are the codes of what passes by itself. A stream that has not begun has changed nothing, so a time-out is no more than that.
func passing(c wire.Code) bool { return c == wire.CodeNoLeader || c == wire.CodeTimeout }

// decline refuses a request. Whoever takes nothing but events, as a browser's EventSource, gets a stream that ends at once where the reason passes by
// itself: he connects again.
func (x *exchange) decline(f *wire.Fault) {
	if x.passes(f) && x.r.Header.Get("Accept") == eventStream {
		x.begin("").end(f)
		return
	}
	x.refuse(f)
}

// pause lets a moment pass; false: it is too late, or nobody waits any more.
func (x *exchange) pause(until time.Time) bool {
	if time.Now().After(until) || x.ctx.Err() != nil {
		return false
	}
	t := time.NewTimer(elsewhere)
	defer t.Stop()
	select {
	case <-t.C: // nobody says when there is a leader, so it is looked for
		return true
	case <-x.ctx.Done():
		return false
	}
}

// relay passes on a stream that the leader answers. silent ends the wait for the leader; it is moved with each sign of life.
func (x *exchange) relay(resp *http.Response, silent *time.Timer) {
	e := x.begin("")
	var last [2]byte
	b := make([]byte, 4096)
	for !e.gone {
		silent.Reset(3 * x.api.cfg.PingEvery)
		n, err := resp.Body.Read(b)
		if n > 0 {
			e.write(b[:n])
			e.flush()
			if n > 1 {
				last[0] = b[n-2]
			} else {
				last[0] = last[1]
			}
			last[1] = b[n-1]
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || x.r.Context().Err() != nil || last != [2]byte{'\n', '\n'}:
			return // the leader has said why, there is nobody to tell, or it was cut off within an event, which is void without its end
		case x.api.drained.Err() != nil:
			e.end(stopping())
			return
		default:
			e.end(later(wire.NewFault(wire.CodeNoLeader, "the leader broke off: connect again. Tokens of the messages that you have stay good until their leases end"), retryMillis*time.Millisecond))
			return
		}
	}
}

// cutWhenSilent is a context that ends when the timer does.
func cutWhenSilent(ctx context.Context, after time.Duration) (context.Context, *time.Timer, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	t := time.AfterFunc(after, cancel)
	return ctx, t, func() {
		t.Stop()
		cancel()
	}
}
