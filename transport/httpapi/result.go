package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/quorate/quorate/wire"
)

// Result is how a task ended: its recorded result, or the dead letter that it is.
type Result struct {
	TaskID         string `json:"task_id,omitzero" required:"false"`
	Status         string `json:"status,omitzero" required:"false" enum:"succeeded,dead"`
	Output         Any    `json:"output,omitzero" required:"false" doc:"what the worker gave; absent: it gave none"`
	OutputEncoding string `json:"output_encoding,omitzero" required:"false" enum:"json,text,base64"`
	ContentType    string `json:"content_type,omitzero" required:"false"`
	Queue          string `json:"queue,omitzero" required:"false"`
	Kind           string `json:"kind,omitzero" required:"false"`
	Attempts       int32  `json:"attempts,omitzero" required:"false"`
	DurationMillis int64  `json:"duration_ms,omitzero" required:"false"`
	Worker         string `json:"worker,omitzero" required:"false"`
	RecordedAt     int64  `json:"recorded_at,omitzero" required:"false" doc:"Unix ms, log time"`
	MessageID      string `json:"message_id,omitzero" required:"false"`
	Dead           *Task  `json:"dead,omitzero" required:"false" doc:"with status dead"`
}

// ResultOf is a result with its output.
func ResultOf(r *wire.Result) *Result { return resultOf(r, true, "") }

func resultOf(r *wire.Result, hasOutput bool, want string) *Result {
	j := &Result{TaskID: r.TaskID, Status: r.Status, ContentType: r.ContentType, Queue: r.Queue, Kind: r.Kind, Attempts: r.Attempts,
		DurationMillis: r.DurationMillis, Worker: r.Worker, RecordedAt: r.RecordedAt, MessageID: r.MessageID}
	if hasOutput {
		j.Output, j.OutputEncoding = bodyJSON(r.Output, r.ContentType, want)
	}
	return j
}

// ResultGiven is a result as a worker gives it.
type ResultGiven struct {
	Output         Any    `json:"output,omitzero" required:"false" doc:"any JSON value; with output_encoding text or base64 a string; absent: empty"`
	OutputEncoding string `json:"output_encoding,omitzero" required:"false" enum:"json,text,base64"`
	ContentType    string `json:"content_type,omitzero" required:"false" maxLength:"128" doc:"absent: by output_encoding"`
}

func (r *ResultGiven) wire(field string) (w wire.Result, f *wire.Fault) {
	var kind string
	if w.Output, kind, f = bodyBytes(field+".output", r.Output, r.OutputEncoding); f != nil {
		return w, f
	}
	if w.ContentType = r.ContentType; w.ContentType == "" {
		w.ContentType = kind
	}
	return w, nil
}

type resultPush struct {
	ResultGiven
	Kind string `json:"kind,omitzero" required:"false" maxLength:"128" doc:"to record where no message ever came"`
}

type resultPushed struct {
	OK        bool    `json:"ok"`
	Duplicate bool    `json:"duplicate" doc:"one was recorded before; it stands"`
	Result    *Result `json:"result,omitzero" required:"false" doc:"with duplicate: the one that stands"`
}

type resultsAnswer struct {
	Results []recorded `json:"results" doc:"in the order of recording; none: none came within the wait"`
	Next    string     `json:"next" doc:"after of the next page, also at the end: what is recorded later is behind it"`
	More    bool       `json:"more" doc:"there may be more already"`
}

type recorded struct {
	Position string `json:"position" doc:"in the order of recording, over all queues"`
	Result
	EndsAt int64 `json:"ends_at" doc:"kept until then, Unix ms, log time"`
}

func resultRoutes() []*route {
	const path = "/v1/results/{id}"
	get := plain(route{method: "GET", path: path, summary: "How a task ended; waits for its end as long as is asked for. Accept other than JSON gets the output alone, byte for byte",
		query: []param{queueParam, waitParam, staleParam, encodeParm}, also: []string{"application/octet-stream"}}, result)
	get.serve = func(x *exchange) *wire.Fault {
		rep, f := x.result()
		if f != nil {
			return f
		}
		if x.wantsRaw() && rep.Result != nil && rep.HasOutput {
			x.bytes(rep.Result.Output, rep.Result.ContentType)
			return nil
		}
		x.reply(x.resultAnswer(rep))
		return nil
	}
	push := with(route{method: "PUT", path: path, summary: "Record a result without a lease; the first one recorded stands. Other content types than JSON are the output",
		raw: "application/octet-stream", query: []param{queueParam, {name: "kind", kind: "string"}}}, pushResult)
	push.serve = func(x *exchange) *wire.Fault {
		in := new(resultPush)
		var res wire.Result
		if x.isJSON() {
			f := x.decode(in)
			if f == nil {
				res, f = in.wire("result")
			}
			if f != nil {
				return f
			}
		} else {
			res = wire.Result{Output: x.body, ContentType: x.r.Header.Get("Content-Type")}
		}
		if k := x.query["kind"]; k != "" {
			in.Kind = k
		}
		out, f := x.pushResult(in.Kind, res)
		if f != nil {
			return f
		}
		x.reply(out)
		return nil
	}
	return []*route{
		get, push,
		plain(route{method: "GET", path: "/v1/results", summary: "A queue's results in the order of recording; waits for the first as long as is asked for", query: []param{
			{name: "queue", kind: "string", doc: "whose results; needed"}, {name: "kind", kind: "string", doc: "only this one"}, limitParam,
			{name: "after", kind: "integer", doc: "next of the page before"}, {name: "last", kind: "boolean", doc: "only what is recorded from now on"}, waitParam, staleParam, encodeParm,
		}}, results),
	}
}

// wantsRaw says whether the caller wants bytes and not JSON.
func (x *exchange) wantsRaw() bool {
	accept := x.r.Header.Get("Accept")
	return accept != "" && !strings.Contains(accept, "json") && !strings.Contains(accept, "*/*")
}

// bytes answers with bytes as they are. What they were said to be stands in a header of its own: a browser must not take them for a page of
// ours.
func (x *exchange) bytes(b []byte, contentType string) {
	x.w.Header().Set("Content-Disposition", "attachment")
	safe := contentType != ""
	for i := range len(contentType) {
		safe = safe && contentType[i] >= ' ' && contentType[i] <= '~'
	}
	if safe {
		x.w.Header().Set("Quorate-Content-Type", contentType)
	}
	x.send(http.StatusOK, "application/octet-stream", b)
}

func (x *exchange) result() (*wire.ResultIs, *wire.Fault) {
	return call[wire.ResultIs](x, wire.TypeResultGet, &wire.ResultGet{Task: x.task(), WaitMillis: x.int("wait_ms"), Stale: x.bool("stale")})
}

func (x *exchange) resultAnswer(rep *wire.ResultIs) *Result {
	j := &Result{TaskID: x.path["id"]}
	if rep.Result != nil {
		j = resultOf(rep.Result, rep.HasOutput, x.query["body_encoding"])
	}
	if j.Status = rep.Status; rep.Dead != nil {
		t := taskOf(rep.Dead, x.query["body_encoding"])
		j.Dead, j.TaskID, j.Queue, j.Kind = &t, t.TaskID, t.Queue, t.Kind
	}
	return j
}

func result(x *exchange) (*Result, *wire.Fault) {
	rep, f := x.result()
	if f != nil {
		return nil, f
	}
	return x.resultAnswer(rep), nil
}

func pushResult(x *exchange, in *resultPush) (*resultPushed, *wire.Fault) {
	res, f := in.wire("result")
	if f != nil {
		return nil, f
	}
	return x.pushResult(in.Kind, res)
}

func (x *exchange) pushResult(kind string, res wire.Result) (*resultPushed, *wire.Fault) {
	rep, f := call[wire.Acked](x, wire.TypeResultPush, &wire.ResultPush{Task: x.task(), Kind: kind, Result: res})
	if f != nil {
		return nil, f
	}
	out := &resultPushed{OK: true, Duplicate: rep.Duplicate}
	if rep.Result != nil {
		out.Result = resultOf(rep.Result, true, "")
	}
	return out, nil
}

func results(x *exchange) (*resultsAnswer, *wire.Fault) {
	after := x.int("after")
	if after < 0 {
		return nil, wire.Invalid("after", "%d; the next of a page before would be right", after)
	}
	rep, f := call[wire.Results](x, wire.TypeResultList, &wire.ResultList{Queue: x.query["queue"], Kind: x.query["kind"], After: uint64(after), Last: x.bool("last"),
		Limit: int32(x.int("limit")), WaitMillis: x.int("wait_ms"), Stale: x.bool("stale")})
	if f != nil {
		return nil, f
	}
	a := &resultsAnswer{Results: make([]recorded, len(rep.Results)), Next: strconv.FormatUint(rep.Next, 10), More: rep.More}
	for i := range rep.Results {
		a.Results[i] = recordedOf(&rep.Results[i], x.query["body_encoding"])
	}
	return a, nil
}

func recordedOf(r *wire.Recorded, want string) recorded {
	return recorded{Position: strconv.FormatUint(r.Position, 10), Result: *resultOf(&r.Result, true, want), EndsAt: r.EndsAt}
}
