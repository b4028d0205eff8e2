package fsmtest

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/fsm"
)

// drainRounds is more than enough: what is out comes back within half a day, and what a reclaim leaves is a thousandth.
const drainRounds = 200

// drain empties both, in one of three ways that the log index chooses (messages are worked off, purged, or deleted with their
// queues), lets time pass until nothing is remembered, and wants the state to hold nothing any more. What it asks for
// follows from the model alone.
func (p *Pair) drain() error {
	m := p.Model
	way := m.index % 3
	apply := func(now int64, ops ...fsm.Op) error {
		_, err := p.Apply(m.index+1, fsm.Entry{Now: now, Ops: ops})
		return err
	}
	for round := 0; !m.worked(); round++ {
		if round == drainRounds {
			return fmt.Errorf("drain: messages are left after %d rounds: %+v", round, p.State.Memory())
		}
		var ops []fsm.Op
		for _, s := range m.schedules {
			ops = append(ops, &fsm.DeleteSchedule{Name: s.def.Name})
		}
		for _, q := range m.queues {
			switch {
			case way == 0 && round < drainRounds/4: // an ordered queue may be long
				ops = append(ops, m.workOff(q, round)...)
			case way < 2:
				ops = append(ops, &fsm.PurgeQueue{Name: []byte(q.name)}, &fsm.DeadPurge{Queue: []byte(q.name)})
			default:
				ops = append(ops, &fsm.DeleteQueue{Name: []byte(q.name)})
			}
		}
		step := int64(0)
		switch {
		case round%8 == 7:
			step = 2 * maxDelay // the longest delay, and the longest jitter
		case round%2 == 1:
			step = maxLease
		}
		if err := apply(m.t+step, ops...); err != nil {
			return fmt.Errorf("drain, round %d: %w", round, err)
		}
	}
	// Results and dedup keys may be kept for a year, keys of the KV a month and then an hour.
	for round := 0; !m.forgotten(); round++ {
		if round == drainRounds {
			return fmt.Errorf("drain: records are left after %d rounds: %+v", round, p.State.Memory())
		}
		if err := apply(m.t + 367*day); err != nil {
			return fmt.Errorf("drain, later: %w", err)
		}
	}
	if err := p.CompareQueries(); err != nil {
		return fmt.Errorf("drained: %w", err)
	}
	for range drainRounds {
		if p.State.Memory().Garbage == 0 {
			break
		}
		if err := apply(m.t); err != nil {
			return fmt.Errorf("drain, garbage: %w", err)
		}
	}
	mem := p.State.Memory()
	mem.Queues, mem.ArenaLive, mem.MappingBytes = mem.Queues-int64(len(m.queues)), 0, 0 // queues are there yet
	mem.ArenaHeld, mem.TableBytes = 0, 0                                                // pages and chunks may be kept for what comes
	if mem != (fsm.Memory{}) {
		return fmt.Errorf("drained, but not empty: %+v", mem)
	}
	var ops []fsm.Op
	for _, q := range m.queues {
		ops = append(ops, &fsm.DeleteQueue{Name: []byte(q.name)})
	}
	err := errors.Join(apply(m.t, ops...), apply(m.t), p.CompareQueries())
	if mem := p.State.Memory(); mem.Queues != 0 || mem.ArenaLive != 0 || mem.Garbage != 0 {
		err = errors.Join(err, fmt.Errorf("without queues, but not empty: %+v", mem))
	}
	if err != nil {
		return fmt.Errorf("drained, queues deleted: %w", err)
	}
	return nil
}

// workOff makes the operations that do a queue's work: options that keep nothing back, a lease, an ack for each message that
// is out, and the deletion of dead letters.
func (m *Model) workOff(q *queue, round int) (ops []fsm.Op) {
	if round == 0 {
		ops = append(ops, &fsm.SetQueue{Name: []byte(q.name), Options: fsm.QueueOptions{
			Ordering: q.options.Ordering, Delivery: q.options.Delivery, DeadLetterQueue: q.options.DeadLetterQueue,
		}})
	}
	for i, x := range q.messages {
		if x.state == fsm.StateLeased {
			ops = append(ops, &fsm.Ack{Token: x.token(), HasResult: i%2 == 0})
		}
	}
	ops = append(ops, &fsm.Lease{Queue: []byte(q.name), Max: 1000, MaxBytes: maxLeaseBytes, LeaseMillis: maxLease})
	var dead []fsm.ID
	for _, x := range q.dead {
		if dead = append(dead, x.id); len(dead) == maxBatch {
			break
		}
	}
	if len(dead) > 0 {
		ops = append(ops, &fsm.DeadDelete{Queue: []byte(q.name), IDs: dead})
	}
	return ops
}

// worked says that there is nothing left to do.
func (m *Model) worked() bool {
	for _, q := range m.queues {
		if len(q.messages)+len(q.dead) > 0 {
			return false
		}
	}
	return len(m.hooks)+len(m.schedules) == 0
}

// forgotten says that nothing is remembered any more.
func (m *Model) forgotten() bool {
	for _, q := range m.queues {
		if int64(len(q.records)+len(q.dedup))+q.debts() > 0 {
			return false
		}
	}
	return len(m.sessions)+len(m.kv.records)+len(m.batches)+len(m.idems) == 0
}
