package transport

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/schema"
	"github.com/quorate/quorate/wire"
)

// schemas judges the bodies that come in through this node's doors by the schemas of their queues, while it leads. A queue without one costs
// a look into a map, and nothing at all where no queue has one.
type schemas struct {
	group Group
	ready *schema.Cache
	texts atomic.Pointer[schemaTexts]

	mu sync.Mutex // of who reads them anew
}

// schemaTexts are the schemas of all queues that have one, as of a version.
type schemaTexts struct {
	version uint64
	byQueue map[string]string
}

// schemasReady is how many compiled schemas are kept, schemasBytes how much, and schemasHold how many queues are looked at in one hold of the state.
const (
	schemasReady = 256
	schemasBytes = 64 << 20 // that they take together, about
	schemasHold  = 500
)

func newSchemas(g Group) *schemas {
	s := &schemas{group: g, ready: schema.NewCache(schemasReady, schemasBytes)}
	s.texts.Store(&schemaTexts{})
	return s
}

// of is the schema of a queue, nil where it has none. The fault says that it has one that cannot be used.
func (s *schemas) of(queue string) (*schema.Schema, *wire.Fault) {
	version := s.group.SchemaVersion()
	if version == 0 {
		return nil, nil
	}
	texts := s.texts.Load()
	if texts.version != version {
		var f *wire.Fault
		if texts, f = s.read(); f != nil {
			return nil, f
		}
	}
	text, typed := texts.byQueue[queue]
	if !typed {
		return nil, nil
	}
	c, err := s.ready.Get(text)
	if err != nil { // another build has taken it
		return nil, wire.NewFault(wire.CodeFailedPrecondition, "queue %q has a schema that this build cannot use, %v: set another, or none", queue, err)
	}
	return c, nil
}

// read reads all of them. What changes while it does is seen by the version, and read with the next message.
func (s *schemas) read() (*schemaTexts, *wire.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := s.group.SchemaVersion()
	if t := s.texts.Load(); t.version == version {
		return t, nil
	}
	t := &schemaTexts{version: version, byQueue: map[string]string{}}
	for after, more := "", true; more; more = after != "" {
		_, err := s.group.Read(context.Background(), true, func(st *fsm.State) { // of the state as it is: it waits for nothing
			after = st.EachSchema(after, schemasHold, func(name, text string) bool {
				t.byQueue[name] = text
				return true
			})
		})
		if err != nil {
			return nil, faultOf(err)
		}
	}
	s.texts.Store(t)
	return t, nil
}

// judge checks a body that is to come into a queue, as long as ctx goes on; field is where the request has it.
func (s *schemas) judge(ctx context.Context, queue, field string, body []byte) *wire.Fault {
	typed, f := s.of(queue)
	if typed == nil || f != nil {
		return f
	}
	return misfit(ctx, typed, queue, field, body)
}

// misfit says what of a body does not fit a queue's schema.
func misfit(ctx context.Context, typed *schema.Schema, queue, field string, body []byte) *wire.Fault {
	switch err := typed.Check(ctx, body); {
	case errors.Is(err, schema.ErrStopped):
		return wire.NewFault(wire.CodeOverloaded, "this node had no time to look at the body: try again")
	case err != nil:
		return wire.Invalid(field, "it does not fit the schema of queue %q: %v", queue, err)
	}
	return nil
}

// home is the queue that a task belongs to: the given one, but for a dead letter that was moved there from another. "": nobody knows, and
// the state will say so.
func (s *schemas) home(queue, task string) (home string) {
	if s.group.SchemaVersion() == 0 {
		return queue
	}
	home = queue
	_, _ = s.group.Read(context.Background(), true, func(st *fsm.State) {
		var in fsm.Info
		if id, err := fsm.ParseID(task); err == nil && queue != "" {
			if n, ok := st.QueueNumber(wire.View(queue)); !ok || !st.DeadLetter(n, id, &in) {
				return
			}
		} else if !st.Task(queue, wire.View(task), &in) {
			return
		}
		if home = in.Queue; in.Origin != "" {
			home = in.Origin
		}
	})
	return home
}
