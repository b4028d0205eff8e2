package httpapi

import (
	"net/http"

	"github.com/quorate/quorate/wire"
)

type batchCreate struct {
	Queue    string  `json:"queue" doc:"of the callback"`
	Callback Message `json:"callback" doc:"enqueued once when the batch is sealed and all of its members have ended, with the counts in its headers"`
}

type batchCreated struct {
	Batch string `json:"batch" doc:"its id: batch of its members"`
}

// Batch is a batch and its counts. Times are Unix ms, log time.
type Batch struct {
	Batch      string `json:"batch"`
	Sealed     bool   `json:"sealed"`
	Members    int64  `json:"members"`
	Open       int64  `json:"open" doc:"not yet ended"`
	Succeeded  int64  `json:"succeeded"`
	Dead       int64  `json:"dead"`
	Cancelled  int64  `json:"cancelled" doc:"purged and deleted ones included"`
	CreatedAt  int64  `json:"created_at"`
	FinishedAt int64  `json:"finished_at,omitzero" required:"false" doc:"when the callback was enqueued"`
	EndsAt     int64  `json:"ends_at,omitzero" required:"false" doc:"when it is forgotten"`
	Queue      string `json:"queue,omitzero" required:"false" doc:"of the callback that is to come"`
	CallbackID string `json:"callback_id,omitzero" required:"false" doc:"of the callback that has come"`
}

func batchRoutes() []*route {
	const path = "/v1/batches/{id}"
	return []*route{
		with(route{method: "POST", path: "/v1/batches", summary: "Make a batch: enqueue messages with its id, then seal it", status: http.StatusCreated}, func(x *exchange, in *batchCreate) (*batchCreated, *wire.Fault) {
			m, f := in.Callback.wire(x.api.cfg.MaxMessageBytes)
			if f != nil {
				return nil, f
			}
			rep, f := call[wire.BatchCreated](x, wire.TypeBatchCreate, &wire.BatchCreate{Queue: in.Queue, Callback: m})
			if f != nil {
				return nil, f
			}
			return &batchCreated{rep.Batch}, nil
		}),
		plain(route{method: "POST", path: path + "/seal", summary: "Close a batch: no more members"}, func(x *exchange) (*done, *wire.Fault) {
			return x.okay(wire.TypeBatchSeal, &wire.BatchSeal{Batch: x.path["id"]})
		}),
		plain(route{method: "GET", path: path, summary: "The counts of a batch", query: []param{staleParam}}, func(x *exchange) (*Batch, *wire.Fault) {
			b, f := call[wire.BatchIs](x, wire.TypeBatchShow, &wire.BatchShow{Batch: x.path["id"], Stale: x.bool("stale")})
			if f != nil {
				return nil, f
			}
			return &Batch{Batch: b.Batch, Sealed: b.Sealed, Members: b.Members, Open: b.Open, Succeeded: b.Succeeded, Dead: b.Dead, Cancelled: b.Cancelled,
				CreatedAt: b.CreatedAt, FinishedAt: b.FinishedAt, EndsAt: b.EndsAt, Queue: b.Queue, CallbackID: b.CallbackID}, nil
		}),
	}
}
