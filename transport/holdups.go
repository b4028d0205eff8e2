package transport

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/push"
	"github.com/quorate/quorate/wire"
)

// Why a queue is not moving is said here and nowhere else: the frame, the HTTP API, the SDK, the CLI and the metrics show these words. The
// state says what keeps messages back (fsm.Standing), the leader's memory who would take them (group.Consumers), and its Pusher whether the one
// that would rests (push.State).

// holdup is a reason without its words.
type holdup struct {
	reason string
	until  int64 // T, 0 where time alone changes nothing
}

// maxHoldups is how many a queue can have at once.
const maxHoldups = 7

// queueStands is a queue at one moment, read in one hold of the state.
type queueStands struct {
	fsm.QueueStats
	standing  fsm.Standing
	consumers group.Consumers
	push      push.State // of a queue with a push URL
}

// readQueue reads a queue. It is for functions that Read runs.
func (s *Server) readQueue(g Group, st *fsm.State, n uint32, name string) queueStands {
	q := queueStands{QueueStats: st.Stats(n), consumers: g.Consumers(name)}
	q.standing = st.Standing(n, q.consumers.Now)
	if q.Options.PushURL != "" && s.cfg.PushState != nil {
		q.push = s.cfg.PushState(name)
	}
	return q
}

// status is what a queue is doing, one of wire.Queue….
func (q *queueStands) status(why []holdup) string {
	switch {
	case q.Ready > 0 && len(why) > 0:
		return wire.QueueHeld
	case q.Ready > 0:
		return wire.QueueMoving
	case len(why) > 0:
		return wire.QueueWaiting
	case q.Leased > 0:
		return wire.QueueWorking
	}
	return wire.QueueEmpty
}

// holdups appends what keeps the queue's messages back to to, all of it, in a fixed order; nothing where they are on their way.
func (q *queueStands) holdups(to []holdup) []holdup {
	add := func(is bool, reason string, until int64) {
		if is {
			to = append(to, holdup{reason, until})
		}
	}
	at, c := &q.standing, &q.consumers
	if q.Ready == 0 {
		// What comes first of both is known, and not of which it is: where there are both, neither has a time.
		due := at.Due
		if q.Scheduled > 0 && q.Retrying > 0 {
			due = 0
		}
		add(q.Scheduled > 0, wire.HoldScheduled, due)
		add(q.Retrying > 0, wire.HoldRetrying, due)
		return to
	}
	add(at.Paused, wire.HoldPaused, 0)
	add(at.Full, wire.HoldInFlight, 0)
	add(at.RateUntil != 0, wire.HoldRate, at.RateUntil)
	add(at.Behind, wire.HoldKeysBlocked, 0)
	add(at.Keys, wire.HoldKeysLimited, at.KeysUntil)
	if c.Known && c.Waiting == 0 {
		rests := q.push.Does == push.Resting
		var until int64
		if rests && !q.push.Until.IsZero() {
			until = q.push.Until.UnixMilli()
		}
		add(rests, wire.HoldPushResting, until)
		// A push that has ended its subscription, and is about to make another, is no want of consumers.
		add(c.Subscriptions == 0 && !rests && q.push.Does != push.Pushing, wire.HoldNoConsumers, 0)
		add(c.Subscriptions > 0 && at.Leasable > 0, wire.HoldConsumersBusy, 0) // else they have nothing to do
	}
	return to
}

// text is a holdup in words.
func (q *queueStands) text(h holdup) string {
	o := &q.Options
	switch h.reason {
	case wire.HoldPaused:
		return "the queue is paused: nothing is handed out until it is resumed"
	case wire.HoldInFlight:
		return fmt.Sprintf("max_in_flight is %d, and %d messages are out", o.MaxInFlight, q.Leased)
	case wire.HoldRate:
		return fmt.Sprintf("the queue's rate of %s a second is used up", rateText(o.RateMilli))
	case wire.HoldKeysBlocked:
		who := "of its key"
		if o.Ordering == fsm.OrderFIFO {
			who = "of the queue, which is fifo"
		}
		return fmt.Sprintf("each ready message waits behind an earlier one %s: %d are out, %d wait for a retry", who, q.Leased, q.Retrying)
	case wire.HoldKeysLimited:
		var limits []string
		if o.MaxInFlightPerKey != 0 {
			limits = append(limits, fmt.Sprintf("max_in_flight_per_key is %d", o.MaxInFlightPerKey))
		}
		if o.RatePerKeyMilli != 0 {
			limits = append(limits, "rate_per_key is "+rateText(o.RatePerKeyMilli)+" a second")
		}
		return "every key that has a ready message is at its limit: " + strings.Join(limits, ", ")
	case wire.HoldPushResting:
		return "the push of the queue rests: " + q.push.Why
	case wire.HoldNoConsumers:
		switch {
		case q.push.Does == push.Barred:
			return "nobody takes messages, and the queue is " + q.push.Text
		case o.PushURL != "":
			return "nobody takes messages: the push of the queue has not begun on this node yet"
		}
		return "nobody takes messages: there is no subscription and no lease request that waits"
	case wire.HoldConsumersBusy:
		return fmt.Sprintf("none of the %d subscriptions has room: %d messages are out", q.consumers.Subscriptions, q.Leased)
	case wire.HoldScheduled:
		return fmt.Sprintf("%d messages are scheduled for later", q.Scheduled)
	case wire.HoldRetrying:
		return fmt.Sprintf("%d messages wait for their next attempt", q.Retrying)
	}
	return h.reason
}

// rateText is a rate in thousandths as people write it.
func rateText(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0")
}

// say puts a queue's standing into its answer.
func (q *queueStands) say(w *wire.QueueInfo) {
	var room [maxHoldups]holdup
	why := q.holdups(room[:0])
	w.Status = q.status(why)
	for _, h := range why {
		w.Why = append(w.Why, wire.Holdup{Reason: h.reason, Text: q.text(h), Until: h.until})
	}
	w.Consumers, w.Idle, w.NotFromLeader = int64(q.consumers.Subscriptions), int64(q.consumers.Waiting), !q.consumers.Known
}
