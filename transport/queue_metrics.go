package transport

import (
	"context"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/quorate/quorate/fsm"
)

// The queues' metrics are written as text here and not through the Prometheus client, which takes 170 ms and 26 MB for a thousand
// queues, a hundred times what the rest of a scrape does.

// queueReading is what is read of a queue for a scrape.
type queueReading struct {
	queueStands
	now   int64 // T
	kinds []fsm.KindStats
}

// secondsSince is how long ago in log time at was, 0 where at is.
func (r *queueReading) secondsSince(at int64) float64 {
	if at == 0 {
		return 0
	}
	return float64(max(0, r.now-at)) / 1000
}

// queueMetric is a metric with a series for each queue, or where it has labels of its own for each of these.
type queueMetric struct {
	name, kind, help string
	value            func(r *queueReading) float64
	each             func(r *queueReading, add func(labels string, v float64)) // instead of value; labels as in text: `queue="q"`
}

func count(v func(r *queueReading) int64) func(*queueReading) float64 {
	return func(r *queueReading) float64 { return float64(v(r)) }
}

const gauge, counter = "gauge", "counter"

// queueMetrics are all of them. Labels are in alphabetical order, as the client library writes them.
var queueMetrics = []queueMetric{
	{name: "pending_total", kind: gauge, help: "Messages ready to be leased (a gauge).", each: eachKind(func(k *fsm.KindStats, add func(string, float64)) {
		add("", float64(k.Ready))
	})},
	{name: "pending_idle_max_seconds", kind: gauge, help: "How long the first message that is ready to be leased has been ready, in log time; what waits behind its key is not looked at.",
		value: func(r *queueReading) float64 { return r.secondsSince(r.WaitingSince) }},
	{name: "oldest_message_age_seconds", kind: gauge, help: "Age of the oldest live message, in log time.",
		value: func(r *queueReading) float64 { return r.secondsSince(r.OldestEnqueuedAt) }},
	{name: "leased", kind: gauge, help: "Messages that are out.", value: count(func(r *queueReading) int64 { return r.Leased })},
	{name: "scheduled", kind: gauge, help: "Messages whose delay is not over.", value: count(func(r *queueReading) int64 { return r.Scheduled })},
	{name: "retrying", kind: gauge, help: "Messages that wait for their next attempt.", value: count(func(r *queueReading) int64 { return r.Retrying })},
	{name: "dead", kind: gauge, help: "Dead letters.", value: count(func(r *queueReading) int64 { return r.Dead })},
	{name: "blocked", kind: gauge, help: "Ready messages that wait behind another of their key or queue.", value: count(func(r *queueReading) int64 { return r.Blocked })},
	{name: "parked", kind: gauge, help: "Ready messages whose keys are held back by a limit of theirs.", value: count(func(r *queueReading) int64 { return r.Parked })},
	{name: "key_debts", kind: gauge, help: "Keys that have used some of their rate and not yet won it back.", value: count(func(r *queueReading) int64 { return r.KeyDebts })},
	{name: "bytes", kind: gauge, help: "Bytes of live messages.", value: count(func(r *queueReading) int64 { return r.Bytes })},
	{name: "results", kind: gauge, help: "Results kept.", value: count(func(r *queueReading) int64 { return r.Results })},
	{name: "result_bytes", kind: gauge, help: "Bytes of results kept.", value: count(func(r *queueReading) int64 { return r.ResultBytes })},
	{name: "dedup_keys", kind: gauge, help: "Dedup keys remembered.", value: count(func(r *queueReading) int64 { return r.DedupKeys })},
	{name: "dead_moved_here", kind: gauge, help: "Live messages that are dead letters of other queues.", value: count(func(r *queueReading) int64 { return r.Moved })},
	{name: "paused", kind: gauge, help: "1 while nothing of the queue is leased.", value: func(r *queueReading) float64 {
		if r.Options.Paused {
			return 1
		}
		return 0
	}},
	{name: "held", kind: gauge, help: "1 for each reason why ready messages of the queue are not handed out. No series: they are, or there are none.",
		each: eachHoldup},
	{name: "limit", kind: gauge, help: "A limit of the queue: max_depth, max_bytes, max_in_flight, max_in_flight_per_key, or rate and rate_per_key in deliveries a second. No series: no limit.",
		each: eachLimit},
	{name: "enqueued_total", kind: counter, help: "Messages accepted.", value: count(func(r *queueReading) int64 { return r.Enqueued })},
	{name: "ack_total", kind: counter, help: "Messages acknowledged.", each: eachKind(func(k *fsm.KindStats, add func(string, float64)) {
		add("", float64(k.Acked))
	})},
	{name: "nack_total", kind: counter, help: "Attempts that ended in a nack.", value: count(func(r *queueReading) int64 { return r.Nacked })},
	{name: "dead_total", kind: counter, help: "Messages that died.", each: eachKind(func(k *fsm.KindStats, add func(string, float64)) {
		for reason, name := range deathNames {
			if n := k.DiedByReason[reason]; name != "" && (n != 0 || k.Kind == "") {
				add(`,reason="`+name+`"`, float64(n))
			}
		}
	})},
	{name: "lease_expired_total", kind: counter, help: "Leases that ran out.", value: count(func(r *queueReading) int64 { return r.Expired })},
	{name: "lease_seconds_total", kind: counter, help: "Time from lease to ack, of all acknowledged messages together, in log time.",
		value: func(r *queueReading) float64 { return float64(r.LeaseMillisSum) / 1000 }},
	{name: "duplicates_total", kind: counter, help: "Enqueues answered with an earlier message.", value: count(func(r *queueReading) int64 { return r.Duplicates })},
	{name: "redriven_total", kind: counter, help: "Dead letters made live again.", value: count(func(r *queueReading) int64 { return r.Redriven })},
	{name: "refused_total", kind: counter, help: "Messages that the queue was not given, by the limit or field that kept them out. No series: none.", each: eachRefusal},
	{name: "dead_dropped_total", kind: counter, help: "Dead letters dropped because the table was full.", value: count(func(r *queueReading) int64 { return r.DeadDropped })},
	{name: "cancelled_total", kind: counter, help: "Tasks that were cancelled.", value: count(func(r *queueReading) int64 { return r.Cancelled })},
	{name: "rescheduled_total", kind: counter, help: "Times that a waiting task was given another time or body.", value: count(func(r *queueReading) int64 { return r.Rescheduled })},
	{name: "dead_moved_total", kind: counter, help: "Messages that died and were moved to the dead-letter queue.", value: count(func(r *queueReading) int64 { return r.MovedOut })},
	{name: "dead_received_total", kind: counter, help: "Dead letters of other queues moved here.", value: count(func(r *queueReading) int64 { return r.MovedIn })},
	{name: "dead_stayed_total", kind: counter, help: "Messages that died and stayed, as the dead-letter queue was missing or full.", value: count(func(r *queueReading) int64 { return r.Stayed })},
	{name: "overflowed_total", kind: counter, help: "Messages dropped to make room for others (overflow drop_oldest).", value: count(func(r *queueReading) int64 { return r.Overflowed })},
}

// deathNames are the names of the reasons by number, empty for no reason.
var deathNames = func() (names [len(fsm.KindStats{}.DiedByReason)]string) {
	for reason, name := range reasons {
		names[reason] = name
	}
	return names
}()

// eachKind makes series by kind; add takes what follows the queue's label.
func eachKind(one func(k *fsm.KindStats, add func(more string, v float64))) func(*queueReading, func(string, float64)) {
	return func(r *queueReading, add func(string, float64)) {
		for i := range r.kinds {
			k := &r.kinds[i]
			labels := `kind="` + labelEscaper.Replace(k.Kind) + `",queue="` + r.Name + `"`
			one(k, func(more string, v float64) { add(labels+more, v) })
		}
	}
}

// labelEscaper escapes what clients chose for the text format. Names of queues need none: see fsm.ValidQueueName.
var labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func eachLimit(r *queueReading, add func(string, float64)) {
	o := &r.Options
	for _, l := range [...]struct {
		name string
		v    float64
	}{
		{"max_bytes", float64(o.MaxBytes)}, {"max_depth", float64(o.MaxDepth)}, {"max_in_flight", float64(o.MaxInFlight)},
		{"max_in_flight_per_key", float64(o.MaxInFlightPerKey)}, {"rate", float64(o.RateMilli) / 1000}, {"rate_per_key", float64(o.RatePerKeyMilli) / 1000},
	} {
		if l.v != 0 {
			add(`limit="`+l.name+`",queue="`+r.Name+`"`, l.v)
		}
	}
}

func eachHoldup(r *queueReading, add func(string, float64)) {
	if r.Ready == 0 { // what is scheduled is not held
		return
	}
	var room [maxHoldups]holdup
	for _, h := range r.holdups(room[:0]) {
		add(`queue="`+r.Name+`",reason="`+h.reason+`"`, 1)
	}
}

func eachRefusal(r *queueReading, add func(string, float64)) {
	for kind, name := range refusals {
		if n := r.RefusedBy[kind]; n != 0 {
			add(`queue="`+r.Name+`",reason="`+name+`"`, float64(n))
		}
	}
}

// queueText collects the lines of each metric, since the format wants them together, while queues are read one after the other.
type queueText struct{ lines [][]byte }

// queueTexts are those of earlier scrapes, megabytes each where there are many queues: the next one has as much to write.
var queueTexts = sync.Pool{New: func() any { return &queueText{lines: make([][]byte, len(queueMetrics))} }}

func (t *queueText) free() {
	for i := range t.lines {
		t.lines[i] = t.lines[i][:0]
	}
	queueTexts.Put(t)
}

func (t *queueText) add(r *queueReading) {
	plain := `queue="` + r.Name + `"`
	for i := range queueMetrics {
		m := &queueMetrics[i]
		line := func(labels string, v float64) {
			b := append(append(append(t.lines[i], "quorate_queue_"...), m.name...), '{')
			b = append(append(b, labels...), "} "...)
			t.lines[i] = append(strconv.AppendFloat(b, v, 'f', -1, 64), '\n')
		}
		if m.each != nil {
			m.each(r, line)
		} else {
			line(plain, m.value(r))
		}
	}
}

// writeTo writes the metrics that have series, each with its head.
func (t *queueText) writeTo(w io.Writer) error {
	for i, lines := range t.lines {
		if len(lines) == 0 {
			continue
		}
		m := &queueMetrics[i]
		if _, err := io.WriteString(w, "# HELP quorate_queue_"+m.name+" "+m.help+"\n# TYPE quorate_queue_"+m.name+" "+m.kind+"\n"); err != nil {
			return err
		}
		if _, err := w.Write(lines); err != nil {
			return err
		}
	}
	return nil
}

// readQueues reads the first MetricQueues queues into t, pageTasksHold in a hold of the state, where this node leads and serves.
// What could be read until ctx ends is there.
func (s *Server) readQueues(ctx context.Context, t *queueText) {
	g := s.group("")
	if status := g.Status(); !status.Leader || !status.Ready {
		return
	}
	page := make([]queueReading, pageTasksHold)
	after, left := "", s.cfg.MetricQueues
	for more := true; more && left > 0; {
		n := 0
		_, err := g.Read(ctx, true, func(st *fsm.State) {
			more = false
			st.Queues(after, func(number uint32, name string) bool {
				if n == min(left, len(page)) {
					more = true
					return false
				}
				page[n] = queueReading{queueStands: s.readQueue(g, st, number, name), now: st.Time(), kinds: st.Kinds(number, page[n].kinds[:0])}
				after = name
				n++
				return true
			})
		})
		if err != nil {
			break
		}
		for i := range page[:n] {
			t.add(&page[i])
		}
		left -= n
	}
}
