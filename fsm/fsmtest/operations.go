package fsmtest

import (
	"crypto/sha256"
	"strings"

	"github.com/quorate/quorate/fsm"
)

// fit gives messages for an ordered queue mostly the priority that it takes.
func (g *Generator) fit(name []byte, list []fsm.Message) {
	q := g.model.queue(string(name))
	if q == nil || q.options.Ordering == fsm.OrderUnordered || g.chance(4) {
		return
	}
	for i := range list {
		list[i].Priority = defaultPriority
	}
}

func (g *Generator) messages() []fsm.Message {
	n := 1 + g.rng.IntN(3)
	switch p := g.rng.IntN(100); {
	case p == 0:
		n = 0
	case p < 4:
		n = 20
	case g.crowd && p < 30:
		n = 300 + g.rng.IntN(300)
	case p == 4 && g.chance(10):
		n = pick(g, maxBatch, maxBatch+1)
	}
	first := g.message()
	list := []fsm.Message{first}
	for len(list) < n {
		if n > 20 {
			// A crowd of like messages: what is due at once is what the test is about.
			like := first
			like.TaskID, like.HasDedup, like.DedupKey, like.DedupContent = nil, false, [16]byte{}, [16]byte{}
			list = append(list, like)
			continue
		}
		list = append(list, g.message())
	}
	return list[:n]
}

func (g *Generator) message() fsm.Message {
	x := fsm.Message{Kind: g.text(128), Body: g.body(), Priority: 4}
	if g.chance(35) {
		x.TaskID = g.taskID()
	}
	if g.chance(30) {
		x.Priority = uint8(g.rng.IntN(10))
	}
	if g.chance(10) {
		x.ContentType = g.text(128)
	}
	if g.chance(50) || g.byKey && g.chance(50) {
		x.Key = []byte(pick(g, "a", "b", "c"))
		if g.chance(5) {
			x.Key = g.text(256)
		}
	}
	if g.chance(15) {
		x.Headers = g.headers()
	}
	if g.chance(30) {
		x.HasDedup = true
		x.DedupKey = hash16("key", byte(g.rng.IntN(8)))
		x.DedupContent = hash16(string(x.Kind), x.Body...)
	}
	if g.chance(25) {
		x.DelayMillis = pick(g, 1, 1, 2, 100, 1000, int64(g.rng.IntN(5000)), 60_000)
	}
	if g.chance(8) {
		x.DueAt = g.t + pick(g, -1000, -1, 0, 1, 2, 500, int64(g.rng.IntN(5000)))
	}
	if g.chance(20) {
		x.TTLMillis = pick(g, 1, 2, 100, 1000, int64(1+g.rng.IntN(5000)), 60_000)
	}
	if g.chance(15) {
		x.TimeoutMillis = pick(g, 1, 99, 100, 101, 1000, int64(1+g.rng.IntN(40_000)))
	}
	if g.chance(20) {
		x.Retry = g.policy()
	}
	g.hooked(&x)
	if g.chance(4) {
		g.spoil(&x)
	}
	return x
}

// spoil puts one field at or beyond its limit.
func (g *Generator) spoil(x *fsm.Message) {
	switch g.rng.IntN(7) {
	case 0:
		x.Priority = pick[uint8](g, 9, 10, 255)
	case 1:
		x.DelayMillis = pick(g, maxDelay, maxDelay+1, -1)
	case 2:
		x.DueAt = g.t + maxDelay + pick[int64](g, -1, 0, 1)
	case 3:
		x.TTLMillis = pick(g, maxDelay, -1)
	case 4:
		x.TimeoutMillis = pick(g, maxDelay, -1)
	case 5:
		x.Retry.JitterMillis = -1
		x.Retry.Kind = fsm.RetryFixed
	case 6:
		x.Retry = fsm.RetryPolicy{Kind: fsm.RetrySchedule}
	}
}

func (g *Generator) headers() []fsm.Header {
	n := 1 + g.rng.IntN(3)
	value := "v"
	switch g.rng.IntN(12) {
	case 0:
		n = pick(g, 64, 65)
	case 1:
		value = strings.Repeat("v", pick(g, 4096, 4097))
	case 2:
		n, value = pick(g, 3, 4), strings.Repeat("v", 4096)
	}
	var list []fsm.Header
	for i := 0; i < n; i++ {
		list = append(list, fsm.Header{Name: []byte{'h', byte('a' + i%26)}, Value: []byte(value)})
	}
	if g.chance(5) {
		list[0].Name = []byte(strings.Repeat("n", pick(g, 128, 129)))
	}
	return list
}

func hash16(a string, b ...byte) (h [16]byte) {
	sum := sha256.Sum256(append([]byte(a+"|"), b...))
	copy(h[:], sum[:])
	return h
}

func (g *Generator) policy() fsm.RetryPolicy {
	var p fsm.RetryPolicy
	switch g.rng.IntN(5) {
	case 0:
		p = fsm.RetryPolicy{Kind: fsm.RetrySchedule, Steps: []int64{0}}
		for g.chance(60) {
			p.Steps = append(p.Steps, pick(g, 0, 1, 10, 1000, int64(g.rng.IntN(4000))))
		}
	case 1:
		p = fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: pick[int64](g, 0, 1, 50, 2000), MaxAttempts: pick[int32](g, 0, 1, 2, 3, 12)}
	case 2:
		p = fsm.RetryPolicy{Kind: fsm.RetryLinear, InitialMillis: pick[int64](g, 0, 1, 700, maxDelay), MaxMillis: pick[int64](g, 0, 2000, maxDelay), MaxAttempts: pick[int32](g, 2, 5, 20)}
	case 3:
		p = fsm.RetryPolicy{
			Kind: fsm.RetryExponential, InitialMillis: pick[int64](g, 0, 1, 3, 1000), MultiplierMilli: pick[int64](g, 0, 1000, 1001, 1333, 2000, 99_999, 100_000),
			MaxMillis: pick[int64](g, 0, 5, 5000, maxDelay), MaxAttempts: pick[int32](g, 3, 12, 1000),
		}
	}
	if p.Kind != fsm.RetryDefault && g.chance(40) {
		p.JitterMillis = pick[int64](g, 1, 2, 1000, maxDelay)
	}
	return p
}

func (g *Generator) options() fsm.QueueOptions {
	var o fsm.QueueOptions
	if g.chance(15) {
		return o
	}
	o.LeaseMillis = pick[int64](g, 0, 100, 1000, 5000, maxLease)
	o.Retry = g.policy()
	if g.tiny {
		o.MaxDead = pick[int64](g, 0, 1, 2, 5)
		o.DedupMaxKeys = pick[int64](g, 0, 1, 2, 4)
		o.MaxResultsBytes = pick[int64](g, 0, 1, 30, 100, 400)
	}
	g.shape(&o)
	o.DeadOverflow = fsm.DeadOverflow(g.rng.IntN(2))
	o.DeadRetentionMillis = pick(g, 0, 1000, 5000, 60_000, 3660*day)
	o.DedupWindowMillis = pick(g, 0, 1000, 3000, 60_000, 366*day)
	o.ResultTTLMillis = pick(g, 0, 1000, 3000, 60_000, 366*day)
	return o
}

func (g *Generator) leaseMillis() int64 {
	if g.chance(5) {
		return pick(g, -1, minLease-1, maxLease+1)
	}
	return pick(g, 0, 0, minLease, minLease+1, 1000, 3000, maxLease)
}

func (g *Generator) lease() *fsm.Lease {
	o := &fsm.Lease{
		Request: g.request(1, true), Queue: g.queueName(), Max: int32(1 + g.rng.IntN(4)), MaxBytes: maxLeaseBytes,
		LeaseMillis: g.leaseMillis(), Worker: []byte(pick(g, "host:1:0", "host:1:1", "other:77:3", "")),
	}
	if len(g.sessions) > 0 && g.chance(80) {
		o.Consumer = fsm.Consumer{Session: pick(g, g.sessions...).id, Sub: uint32(g.rng.IntN(3))}
	}
	if g.chance(5) {
		o.Worker = g.text(256)
	}
	o.Waits = g.chance(20)
	if g.chance(15) {
		o.MaxBytes = pick[int64](g, 0, 1, 2, 32, 64, 4000, maxLeaseBytes+1)
	}
	switch p := g.rng.IntN(100); {
	case p < 2:
		o.Max = pick[int32](g, 0, -1, 1001)
	case p < 10 || g.crowd && p < 40:
		o.Max = pick[int32](g, 20, 500, 999, 1000)
	}
	return o
}

func (g *Generator) ack() *fsm.Ack {
	o := &fsm.Ack{Token: g.token(), ThenAutoCreate: !g.chance(30)}
	o.Mapping = g.generation(o.Token)
	if g.chance(60) {
		o.HasResult, o.Result = true, g.result()
	}
	if g.chance(30) {
		for n := pick(g, 1, 1, 2, 3, 6); n > 0; n-- {
			x := []fsm.Message{g.message()}
			name := g.queueName()
			g.fit(name, x)
			o.Then = append(o.Then, fsm.ThenMessage{Queue: name, Message: x[0]})
		}
	}
	return o
}

func (g *Generator) nack() *fsm.Nack {
	o := &fsm.Nack{Token: g.token(), DelayMillis: -1, Permanent: g.chance(12), Error: []byte(pick(g, "", "boom", "exit status 1"))}
	if g.chance(40) {
		o.Mapping = g.generation(o.Token)
	}
	if g.chance(10) {
		o.Error = []byte(strings.Repeat("a", g.rng.IntN(5)) + strings.Repeat(pick(g, "x", "é", "語", "🙂"), pick(g, 63, 64, 128, 256, 1024, 2048, 5000)))
	}
	if g.chance(35) {
		o.DelayMillis = pick(g, 0, 0, 1, 10, int64(g.rng.IntN(3000)), maxDelay)
	}
	if g.chance(2) {
		o.DelayMillis = pick(g, -2, maxDelay+1)
	}
	return o
}
