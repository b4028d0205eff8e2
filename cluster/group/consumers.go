package group

// Consumers are those who can be given messages of a queue, as its leader knows them. They are in no state: a node that does not
// lead knows of none.
type Consumers struct {
	Known         bool  // this node leads and serves; else all is zero
	Now           int64 // T, Unix ms, that an entry proposed at this moment would be stamped with
	Subscriptions int   // those included that have as much as they take, or take nothing at present
	Waiting       int   // subscriptions with room and lease requests: who would be given a message that can be leased
}

// Consumers are those of a queue, which need not exist. It is for the functions that Read runs, and for nobody else: they hold the
// state lock, so that what they see of the state and what this says are of the same moment.
func (g *Group) Consumers(queue string) (c Consumers) {
	if !g.serving {
		return c
	}
	c.Known = true
	c.Now, _ = g.time.now()
	if q := g.dispatch.queues[queue]; q != nil {
		c.Subscriptions, c.Waiting = q.subs, q.count
	}
	return c
}
