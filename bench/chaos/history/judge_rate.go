package history

// pace is how fast a queue, or a key of one, has handed out. With n(a, b) leases from T a to T b, both included, a rate of r a second with a
// burst of b0 allows n ≤ b0 + r·(b − a) for every window. The k-th lease at T is the point k·10⁶ − r·T, r in thousandths a second and T in
// ms: no window is too full as long as no point lies more than (b0 − 1)·10⁶ above the lowest before it.
type pace struct {
	from   int64 // T of the first lease
	leases int64
	lowest int64
}

const paceUnit = 1_000_000

// take counts a lease and says how far above the lowest point it lies.
func (p *pace) take(rate, now int64) int64 {
	if p.leases == 0 {
		p.from = now
	}
	p.leases++
	at := p.leases*paceUnit - rate*(now-p.from)
	if p.leases == 1 || at < p.lowest {
		p.lowest = at
	}
	return at - p.lowest
}

// open says whether a lease may be.
func (p *pace) open(rate, burst, now int64) bool {
	if p.leases == 0 {
		return true
	}
	at := (p.leases+1)*paceUnit - rate*(now-p.from)
	return at-min(p.lowest, at) <= (burst-1)*paceUnit
}

// paced judges a lease by the rate of its queue, and by that of its key (G18).
func (j *judge) paced(m *message, e *Effect) {
	q, o := m.q, &m.q.opt
	if o.Rate != 0 {
		above := q.pace.take(o.Rate, j.time)
		if above > (o.Burst-1)*paceUnit {
			j.blame("G18", m, e, "lease %d of queue %s at T %d passes its rate of %d/1000 a second with a burst of %d",
				q.pace.leases, q.name, j.time, o.Rate, o.Burst)
		}
		if above > (o.Burst-2)*paceUnit {
			j.r.count("rate used up")
		}
	}
	f := q.flow(m.key)
	if f == nil {
		return
	}
	above := f.pace.take(o.KeyRate, j.time)
	if above > (o.KeyBurst-1)*paceUnit {
		j.blame("G18", m, e, "lease %d of key %q in queue %s at T %d passes the keys' rate of %d/1000 a second with a burst of %d",
			f.pace.leases, m.key, q.name, j.time, o.KeyRate, o.KeyBurst)
	}
	if above > (o.KeyBurst-2)*paceUnit {
		j.r.count("rate of a key used up")
	}
}

// holds is how long in ms rates may keep a queue from handing out one message.
func (o *Options) holds() int64 { return gap(o.Rate) + gap(o.KeyRate) }

// gap is the time in ms between two leases at a rate, 0 without one.
func gap(rate int64) int64 {
	if rate == 0 {
		return 0
	}
	return (paceUnit + rate - 1) / rate
}
