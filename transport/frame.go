package transport

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/wire"
)

// frame handles one frame. False: the connection is over.
func (c *conn) frame(raw wire.Raw) bool {
	if !c.greeted {
		return c.hello(raw)
	}
	switch raw.Type {
	case wire.TypeEnqueue:
		return c.enqueue(raw)
	case wire.TypeAck:
		return c.ack(raw)
	case wire.TypeAckBatch:
		return c.ackBatch(raw)
	case wire.TypeStarted:
		return c.start(raw)
	case wire.TypeHello:
		return c.breach("a second hello: a connection is opened once")
	}
	handle, known := requests[raw.Type]
	if !known {
		if raw.Type%2 == 1 {
			return c.breach("a frame of type %d: requests are even, and odd types are the server's to send", raw.Type)
		}
		if ok, alive := c.begin(raw); !ok {
			return alive
		}
		return c.fault(raw.Tag, wire.NewFault(wire.CodeUnsupportedVersion,
			"no request has type %d in version %d of the protocol, which this server speaks", raw.Type, wire.Version))
	}
	return handle(c, raw)
}

// requests are the types beside the hot ones.
var requests = map[wire.Type]func(*conn, wire.Raw) bool{
	wire.TypeOpenSession:     (*conn).openSession,
	wire.TypeLease:           (*conn).pull,
	wire.TypeSubscribe:       (*conn).subscribe,
	wire.TypeCredit:          (*conn).credit,
	wire.TypeUnsubscribe:     (*conn).unsubscribe,
	wire.TypeResume:          (*conn).resume,
	wire.TypeNack:            (*conn).nack,
	wire.TypeExtend:          (*conn).extend,
	wire.TypeRelease:         (*conn).release,
	wire.TypeResultGet:       (*conn).resultGet,
	wire.TypeResultPush:      (*conn).resultPush,
	wire.TypeTask:            (*conn).task,
	wire.TypeTaskCancel:      (*conn).taskCancel,
	wire.TypeTaskReschedule:  (*conn).taskReschedule,
	wire.TypeResultList:      (*conn).resultList,
	wire.TypeQueueCreate:     (*conn).queueWrite,
	wire.TypeQueueSet:        (*conn).queueWrite,
	wire.TypeQueueDelete:     (*conn).queueEnd,
	wire.TypeQueuePurge:      (*conn).queueEnd,
	wire.TypeDeadPurge:       (*conn).queueEnd,
	wire.TypeQueueList:       (*conn).queueList,
	wire.TypeQueueShow:       (*conn).queueShow,
	wire.TypePeek:            (*conn).peek,
	wire.TypeDeadList:        (*conn).deadList,
	wire.TypeDeadGet:         (*conn).deadGet,
	wire.TypeDeadRequeue:     (*conn).deadIDs,
	wire.TypeDeadDelete:      (*conn).deadIDs,
	wire.TypeDeadEdit:        (*conn).deadEdit,
	wire.TypeClusterStatus:   (*conn).clusterStatus,
	wire.TypeClusterVerify:   (*conn).clusterVerify,
	wire.TypeClusterTransfer: (*conn).clusterTransfer,
	wire.TypeClusterRemove:   (*conn).clusterRemove,
	wire.TypeKVGet:           (*conn).kvGet,
	wire.TypeKVList:          (*conn).kvList,
	wire.TypeKVDelete:        (*conn).kvDelete,
	wire.TypeKVWatch:         (*conn).kvWatch,
	wire.TypeScheduleCreate:  (*conn).scheduleWrite,
	wire.TypeScheduleSet:     (*conn).scheduleWrite,
	wire.TypeScheduleDelete:  (*conn).scheduleDelete,
	wire.TypeScheduleShow:    (*conn).scheduleShow,
	wire.TypeScheduleList:    (*conn).scheduleList,
	wire.TypeBatchCreate:     (*conn).batchCreate,
	wire.TypeBatchSeal:       (*conn).batchSeal,
	wire.TypeBatchShow:       (*conn).batchShow,
}

// taken decodes a request's body, counts the request in and checks it. ok false: the request is answered, or the
// connection is over (alive false).
func taken[T any](c *conn, raw wire.Raw, req *T, check func(*T) *wire.Fault) (ok, alive bool) {
	if err := raw.DecodeWith(req, &c.strings); err != nil {
		return false, c.badFrame(err)
	}
	if ok, alive := c.begin(raw); !ok {
		return false, alive
	}
	if f := check(req); f != nil {
		return false, c.fault(raw.Tag, f)
	}
	return true, true
}

// hello opens the conversation: the first frame says which versions the client speaks.
func (c *conn) hello(raw wire.Raw) bool {
	if raw.Type != wire.TypeHello {
		return c.breach("a frame of type %d before hello (type %d): hello comes first", raw.Type, wire.TypeHello)
	}
	var req wire.Hello
	if err := raw.Decode(&req); err != nil {
		return c.badFrame(err)
	}
	if ok, alive := c.begin(raw); !ok {
		return alive
	}
	if f := req.Validate(); f != nil {
		c.fault(raw.Tag, f)
		c.close(CloseBadFrame, f.Message)
		return false
	}
	if !slices.Contains(req.Versions, wire.Version) {
		f := wire.NewFault(wire.CodeUnsupportedVersion, "this server speaks version %d of the protocol, the client offers %s", wire.Version, fmt.Sprint(req.Versions))
		c.fault(raw.Tag, f)
		c.close(CloseVersion, f.Message)
		return false
	}
	st := c.srv.group("").Status()
	c.greeted = true
	c.log.Debug("client connected", "client", req.Client)
	c.push(wire.TypeWelcome, raw.Tag, &wire.Welcome{
		Version:         wire.Version,
		Node:            c.srv.cfg.Broker.Label(),
		Cluster:         c.srv.cfg.Broker.Cluster(),
		Leader:          st.LeaderAddr,
		IsLeader:        st.Leader,
		MaxMessageBytes: c.srv.cfg.MaxMessageBytes,
		MaxFrameBytes:   int64(c.srv.maxFrame),
		MaxBatch:        wire.MaxBatch,
		PingMillis:      c.srv.cfg.PingEvery.Milliseconds(),
		Server:          c.srv.cfg.Version,
	})
	return true
}
