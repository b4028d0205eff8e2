package history

// pace is how fast a queue has handed out. With n(a, b) leases from T a to T b, both included, a rate of r a second with a burst of b0
// allows n ≤ b0 + r·(b − a) for every window. The k-th lease at T is the point k·10⁶ − r·T, r in thousandths a second and T in ms: no
// window is too full as long as no point lies more than (b0 − 1)·10⁶ above the lowest before it.
type pace struct {
	from   int64 // T of the first lease
	leases int64
	lowest int64
}

const paceUnit = 1_000_000

// paced judges a lease by the rate of its queue (G18).
func (j *judge) paced(m *message, e *Effect) {
	o, p := &m.q.opt, &m.q.pace
	if o.Rate == 0 {
		return
	}
	if p.leases == 0 {
		p.from = j.time
	}
	p.leases++
	at := p.leases*paceUnit - o.Rate*(j.time-p.from)
	if p.leases == 1 || at < p.lowest {
		p.lowest = at
	}
	if at-p.lowest > (o.Burst-1)*paceUnit {
		j.blame("G18", m, e, "lease %d of queue %s at T %d passes its rate of %d/1000 a second with a burst of %d",
			p.leases, m.q.name, j.time, o.Rate, o.Burst)
	}
	if at-p.lowest > (o.Burst-2)*paceUnit {
		j.r.count("rate used up")
	}
}

// holds is how long in ms a rate may keep a queue from handing out one message.
func (o *Options) holds() int64 {
	if o.Rate == 0 {
		return 0
	}
	return (paceUnit + o.Rate - 1) / o.Rate
}
