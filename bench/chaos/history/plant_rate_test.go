package history

// ratePlants are about the rates of queues.
var ratePlants = []plant{
	{"rate: a queue hands out faster than it may", []string{"G18"}, func(p *planter) bool {
		return p.limit(func(o *Options) { o.Rate = max(1, o.Rate/4) })
	}},
	{"rate: a queue hands out more at once than it may", []string{"G18"}, func(p *planter) bool {
		return p.limit(func(o *Options) { o.Burst = 1 })
	}},
}

// limit changes the options of a queue with a rate.
func (p *planter) limit(change func(o *Options)) bool {
	at := p.effect(func(_ int, e *Effect) bool { return e.Op == Queue && e.Options.Rate != 0 })
	if at < 0 {
		return false
	}
	o := *p.h.Effects[at].Options
	change(&o)
	p.h.Effects[at].Options = &o
	return true
}
