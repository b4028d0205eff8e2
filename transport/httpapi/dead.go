package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/quorate/quorate/wire"
)

// maxOffset is how many dead letters a listing may skip: they are walked past. A cursor has no such limit.
const maxOffset = 10_000

// deadAnswer is a page of dead letters.
type deadAnswer struct {
	Messages []Task `json:"messages" doc:"by the time they died"`
	Jobs     []Job  `json:"jobs,omitzero" required:"false" doc:"the same as job envelopes, where those were asked for"`
	Next     string `json:"next,omitzero" required:"false" doc:"after of the next page; absent at the end. A page may be short, or empty, and yet not the last"`
}

// DeadFilter selects dead letters.
type DeadFilter struct {
	Kind    string            `json:"kind,omitzero" required:"false"`
	Reason  string            `json:"reason,omitzero" required:"false" enum:"max_attempts,permanent,expired,overflow,mapping"`
	Since   int64             `json:"since,omitzero" required:"false" doc:"died at or after, Unix ms"`
	Until   int64             `json:"until,omitzero" required:"false" doc:"died at or before, Unix ms"`
	Text    string            `json:"text,omitzero" required:"false" doc:"has this in its error, task id or body, to the letter; up to 256 bytes"`
	Headers map[string]string `json:"headers,omitzero" required:"false" doc:"has each of these; an empty value stands for any"`
}

// deadRequeue says which dead letters come back: those named, or those that a filter finds.
type deadRequeue struct {
	IDs []string `json:"ids,omitzero" required:"false" maxItems:"1000"`
	All bool     `json:"all,omitzero" required:"false" doc:"instead of ids: all that pass the filter, limit of them a call"`
	DeadFilter
	Limit int32 `json:"limit,omitzero" required:"false" minimum:"1" maximum:"1000" doc:"with all: how many a call looks at; absent: 1000. Call again while more is true"`
}

type deadRequeued struct {
	Requeued int64     `json:"requeued_count"`
	Outcomes []deadOne `json:"outcomes" doc:"one for each, in order"`
	More     bool      `json:"more" doc:"there may be more that pass the filter: call again"`
}

type deadOne struct {
	OK         bool     `json:"ok"`
	OriginalID string   `json:"original_id" doc:"the dead letter's id"`
	NewID      string   `json:"new_id,omitzero" required:"false"`
	Error      *Problem `json:"error,omitzero" required:"false" doc:"it stays"`
}

// deadBack is the answer to one that came back.
type deadBack struct {
	OK     bool   `json:"ok"`
	NewID  string `json:"new_id"`
	TaskID string `json:"task_id"`
}

type deadDeleted struct {
	Deleted int64 `json:"deleted_count"`
	More    bool  `json:"more,omitzero" required:"false" doc:"with a filter: there may be more that pass it, call again"`
}

// deadEdit is what a dead letter gets anew before it comes back. What is left out stays.
type deadEdit struct {
	Body          Any               `json:"body,omitzero" required:"false"`
	BodyEncoding  string            `json:"body_encoding,omitzero" required:"false" enum:"json,text,base64"`
	ContentType   *string           `json:"content_type,omitzero" required:"false"`
	Headers       map[string]string `json:"headers,omitzero" required:"false" doc:"all of them, {} for none"`
	Priority      *uint8            `json:"priority,omitzero" required:"false" maximum:"9"`
	Kind          *string           `json:"kind,omitzero" required:"false"`
	Key           *string           `json:"key,omitzero" required:"false"`
	TTLMillis     *int64            `json:"ttl_ms,omitzero" required:"false" doc:"0: none"`
	TimeoutMillis *int64            `json:"timeout_ms,omitzero" required:"false" doc:"0: none"`
	Retry         *Retry            `json:"retry,omitzero" required:"false"`
	DelayMillis   *int64            `json:"delay_ms,omitzero" required:"false"`
}

var filterParams = []param{
	{name: "kind", kind: "string"}, {name: "reason", kind: "string", enum: []string{"max_attempts", "permanent", "expired", "overflow", "mapping"}},
	{name: "since", kind: "integer", doc: "died at or after, Unix ms"}, {name: "until", kind: "integer", doc: "died at or before, Unix ms"},
	{name: "text", kind: "string", doc: "has this in its error, task id or body, to the letter"},
	{name: "header", kind: "string", many: true, doc: "has it: name, or name=value"},
}

func deadRoutes() []*route {
	const list, one = "/v1/queues/{q}/dlq", "/v1/queues/{q}/dlq/{id}"
	listing := plain(route{method: "GET", path: list, summary: "List dead letters by the time they died", also: []string{"text/csv"}, query: append([]param{
		limitParam, {name: "offset", kind: "integer", most: maxOffset, doc: "skip so many; after has no limit"}, afterParam, staleParam, encodeParm, jobParam,
		{name: "format", kind: "string", enum: []string{"json", "csv"}},
	}, filterParams...)}, deadList)
	listing.serve = func(x *exchange) *wire.Fault {
		rep, f := x.deadPage()
		if f != nil {
			return f
		}
		if x.query["format"] != "csv" {
			x.reply(x.deadAnswer(rep))
			return nil
		}
		b, err := deadCSV(tasksOf(rep.Tasks, encBase64), rep.Tasks)
		if err != nil {
			return wire.NewFault(wire.CodeInternal, "the answer cannot be written as CSV: %v", err)
		}
		if rep.Next != "" {
			x.w.Header().Set("Link", "<?after="+rep.Next+">; rel=\"next\"")
		}
		x.send(http.StatusOK, "text/csv; charset=utf-8", b)
		return nil
	}
	return []*route{
		listing,
		plain(route{method: "GET", path: one, summary: "One dead letter", query: []param{staleParam, encodeParm, jobParam}}, func(x *exchange) (*taskAnswer, *wire.Fault) {
			rep, f := call[wire.TaskIs](x, wire.TypeDeadGet, &wire.DeadGet{Queue: x.path["q"], ID: x.path["id"], Stale: x.bool("stale")})
			if f != nil {
				return nil, f
			}
			return x.taskAnswer(&rep.Task), nil
		}),
		with(route{method: "POST", path: one + "/requeue", summary: "Bring one back, with fields set anew if they are given", optional: true}, requeueOne),
		with(route{method: "POST", path: list + "/requeue", summary: "Bring back up to 1000: those named, or those that a filter finds"}, requeueMany),
		plain(route{method: "DELETE", path: one, summary: "Delete one dead letter"}, func(x *exchange) (*deadDeleted, *wire.Fault) {
			out, f := x.deadIDs(wire.TypeDeadDelete, x.path["q"], []string{x.path["id"]})
			if f == nil {
				f = out[0].Fault
			}
			if f != nil {
				return nil, f
			}
			return &deadDeleted{Deleted: 1}, nil
		}),
		plain(route{method: "DELETE", path: list, summary: "Delete all dead letters, or with a filter up to 1000 of those that pass it", query: append([]param{limitParam}, filterParams...)}, deleteMany),
	}
}

// filter reads the filter of a query.
func (x *exchange) filter() DeadFilter {
	d := DeadFilter{Kind: x.query["kind"], Reason: x.query["reason"], Since: x.int("since"), Until: x.int("until"), Text: x.query["text"]}
	for _, h := range x.queries["header"] {
		name, value, ok := cutHeader(h)
		if !ok {
			name = h
		}
		if d.Headers == nil {
			d.Headers = make(map[string]string)
		}
		d.Headers[name] = value
	}
	return d
}

func (d *DeadFilter) list(queue string) *wire.DeadList {
	return &wire.DeadList{Queue: queue, Kind: d.Kind, Reason: d.Reason, Since: d.Since, Until: d.Until, Text: d.Text, Headers: wireHeaders(d.Headers)}
}

func (d *DeadFilter) empty() bool {
	return d.Kind == "" && d.Reason == "" && d.Since == 0 && d.Until == 0 && d.Text == "" && len(d.Headers) == 0
}

// deadPage is the page that a query asks for.
func (x *exchange) deadPage() (*wire.Tasks, *wire.Fault) {
	f := x.filter()
	return x.deadFrom(f.list(x.path["q"]), x.query["after"], x.int("offset"), int32(x.int("limit")))
}

// deadFrom lists behind a cursor, or behind the first offset.
func (x *exchange) deadFrom(req *wire.DeadList, after string, offset int64, limit int32) (*wire.Tasks, *wire.Fault) {
	if after != "" && offset != 0 {
		return nil, wire.Invalid("offset", "given with after: one of the two would be right")
	}
	req.Stale, req.After = x.bool("stale"), after
	for offset > 0 {
		req.Limit, req.Brief = int32(min(offset, wire.MaxList)), true
		rep, f := call[wire.Tasks](x, wire.TypeDeadList, req)
		if f != nil {
			return nil, f
		}
		if rep.Next == "" {
			rep.Tasks = nil // there are no more than were skipped
			return rep, nil
		}
		offset -= int64(len(rep.Tasks))
		req.After = rep.Next
	}
	req.Limit, req.Brief = limit, false
	return call[wire.Tasks](x, wire.TypeDeadList, req)
}

func deadList(x *exchange) (*deadAnswer, *wire.Fault) {
	rep, f := x.deadPage()
	if f != nil {
		return nil, f
	}
	return x.deadAnswer(rep), nil
}

func (x *exchange) deadAnswer(rep *wire.Tasks) *deadAnswer {
	want := x.query["body_encoding"]
	a := &deadAnswer{Messages: tasksOf(rep.Tasks, want), Next: rep.Next}
	if x.query["envelope"] == "job" {
		for i := range rep.Tasks {
			t := &rep.Tasks[i]
			a.Jobs = append(a.Jobs, jobOf(t.TaskID, t.Kind, t.Attempts, t.MaxAttempts, t.Body, t.ContentType, t.Headers, t.EnqueuedAt, want))
		}
	}
	return a
}

// deadIDs requeues or deletes dead letters, each with its own outcome.
func (x *exchange) deadIDs(t wire.Type, queue string, ids []string) ([]wire.Outcome, *wire.Fault) {
	rep, f := call[wire.Enqueued](x, t, &wire.DeadIDs{Queue: queue, IDs: ids})
	if f != nil {
		return nil, f
	}
	return rep.Outcomes, nil
}

// found are the ids of up to limit dead letters that pass a filter; more says that there may be more.
func (x *exchange) found(d *DeadFilter, limit int32) (ids []string, more bool, f *wire.Fault) {
	req := d.list(x.path["q"])
	if req.Limit, req.Brief = limit, true; limit == 0 {
		req.Limit = wire.MaxList
	}
	for {
		rep, f := call[wire.Tasks](x, wire.TypeDeadList, req)
		if f != nil {
			return nil, false, f
		}
		for i := range rep.Tasks {
			ids = append(ids, rep.Tasks[i].ID)
		}
		// A page may be empty because as many as a call may were looked at and none passed: go on, while the caller is there.
		if more = rep.Next != ""; !more || len(ids) > 0 || x.ctx.Err() != nil {
			return ids, more, nil
		}
		req.After = rep.Next
	}
}

func requeueOne(x *exchange, in *deadEdit) (*deadBack, *wire.Fault) {
	edit, f := in.wire(x.path["q"], x.path["id"])
	if f != nil {
		return nil, f
	}
	if f := x.noteTask(edit.ID); f != nil {
		return nil, f
	}
	var out []wire.Outcome
	if len(edit.Fields) == 0 {
		out, f = x.deadIDs(wire.TypeDeadRequeue, edit.Queue, []string{edit.ID})
	} else {
		var rep *wire.Enqueued
		if rep, f = call[wire.Enqueued](x, wire.TypeDeadEdit, edit); f == nil {
			out = rep.Outcomes
		}
	}
	if f == nil {
		f = out[0].Fault
	}
	if f != nil {
		return nil, f
	}
	e := enqueuedOf(&out[0])
	if x.replayed() && len(x.idem.Note) > 0 {
		e.TaskID = string(x.idem.Note)
	}
	return &deadBack{OK: true, NewID: e.ID, TaskID: e.TaskID}, nil
}

func (d *deadEdit) wire(queue, id string) (*wire.DeadEdit, *wire.Fault) {
	w := &wire.DeadEdit{Queue: queue, ID: id}
	set := func(field string, given bool) bool {
		if given {
			w.Fields = append(w.Fields, field)
		}
		return given
	}
	if set(wire.EditBody, d.Body != nil || d.BodyEncoding != "") {
		b, kind, f := bodyBytes("body", d.Body, d.BodyEncoding)
		if f != nil {
			return nil, f
		}
		if w.Set.Body = b; d.ContentType == nil {
			d.ContentType = &kind
		}
	}
	if set(wire.EditContentType, d.ContentType != nil) {
		w.Set.ContentType = *d.ContentType
	}
	if set(wire.EditHeaders, d.Headers != nil) {
		w.Set.Headers = wireHeaders(d.Headers)
	}
	if set(wire.EditPriority, d.Priority != nil) {
		w.Set.Priority = d.Priority
	}
	if set(wire.EditKind, d.Kind != nil) {
		w.Set.Kind = *d.Kind
	}
	if set(wire.EditKey, d.Key != nil) {
		w.Set.Key = wire.Bytes(*d.Key)
	}
	if set(wire.EditTTL, d.TTLMillis != nil) {
		w.Set.TTLMillis = *d.TTLMillis
	}
	if set(wire.EditTimeout, d.TimeoutMillis != nil) {
		w.Set.TimeoutMillis = *d.TimeoutMillis
	}
	if set(wire.EditRetry, d.Retry != nil) {
		w.Set.Retry = d.Retry.wire()
	}
	if set(wire.EditDelay, d.DelayMillis != nil) {
		w.Set.DelayMillis = *d.DelayMillis
	}
	return w, nil
}

func requeueMany(x *exchange, in *deadRequeue) (*deadRequeued, *wire.Fault) {
	a := &deadRequeued{Outcomes: []deadOne{}}
	ids := in.IDs
	switch {
	case in.All == (ids != nil):
		return nil, wire.Invalid("ids", "ids, or all with or without a filter: one of the two would be right")
	case ids != nil && (!in.empty() || in.Limit != 0):
		return nil, wire.Invalid("ids", "given with a filter or a limit: those belong to all")
	case in.All:
		if in.Limit < 0 || in.Limit > wire.MaxList {
			return nil, wire.Invalid("limit", "%d; 1 to %d are allowed", in.Limit, wire.MaxList)
		}
		d, f := x.findDead(&in.DeadFilter, in.Limit)
		if f != nil {
			return nil, f
		}
		if ids, a.More = d.ids, d.more; len(ids) == 0 {
			return a, nil
		}
	}
	out, f := x.deadIDs(wire.TypeDeadRequeue, x.path["q"], ids)
	if f != nil {
		return nil, f
	}
	if in.All {
		d := found{ids, a.More}
		if out, f = d.again(x, out); f != nil {
			return nil, f
		}
		ids, a.More = d.ids, d.more
	}
	for i := range out {
		one := deadOne{OK: true, OriginalID: ids[i], NewID: out[i].ID}
		if out[i].Fault != nil {
			one = deadOne{OriginalID: ids[i], Error: ProblemOf(out[i].Fault, "")}
		} else {
			a.Requeued++
		}
		a.Outcomes = append(a.Outcomes, one)
	}
	return a, nil
}

func deleteMany(x *exchange) (*deadDeleted, *wire.Fault) {
	d := x.filter()
	if d.empty() {
		if x.query["limit"] != "" {
			return nil, wire.Invalid("limit", "given without a filter: all are deleted then")
		}
		rep, f := call[wire.Counted](x, wire.TypeDeadPurge, &wire.QueueRef{Queue: x.path["q"]})
		if f != nil {
			return nil, f
		}
		return &deadDeleted{Deleted: rep.Count}, nil
	}
	have, f := x.findDead(&d, int32(x.int("limit")))
	if f != nil {
		return nil, f
	}
	a := &deadDeleted{More: have.more}
	if len(have.ids) == 0 {
		return a, nil
	}
	out, f := x.deadIDs(wire.TypeDeadDelete, x.path["q"], have.ids)
	if f == nil {
		out, f = have.again(x, out)
	}
	if f != nil {
		return nil, f
	}
	a.More = have.more
	for i := range out {
		if out[i].Fault == nil {
			a.Deleted++
		}
	}
	return a, nil
}

var csvHead = []string{
	"id", "original_id", "task_id", "queue", "origin_queue", "kind", "reason", "attempts", "max_attempts", "redrives", "failed_at", "original_created_at",
	"error_message", "worker", "priority", "content_type", "key", "headers", "body", "body_encoding",
}

// deadCSV is dead letters for people and spreadsheets: a cell that one would take for a formula has ' before it, and a body that is not text
// is base64. JSON is exact.
func deadCSV(ts []Task, ws []wire.Task) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write(csvHead); err != nil {
		return nil, err
	}
	for i := range ts {
		t, headers := &ts[i], ""
		if t.Headers != nil {
			h, err := json.Marshal(t.Headers, json.Deterministic(true))
			if err != nil {
				return nil, err
			}
			headers = string(h)
		}
		body, encoding := string(ws[i].Body), encText
		if !plainText(ws[i].Body) {
			body, encoding = base64.StdEncoding.EncodeToString(ws[i].Body), encBase64
		}
		row := []string{
			t.ID, t.OriginalID, t.TaskID, t.Queue, t.OriginQueue, t.Kind, t.Reason, strconv.Itoa(int(t.Attempts)), strconv.Itoa(int(t.MaxAttempts)),
			strconv.Itoa(int(t.Redrives)), strconv.FormatInt(t.FailedAt, 10), strconv.FormatInt(t.OriginalCreatedAt, 10), t.ErrorMessage, t.Worker,
			strconv.Itoa(int(t.Priority)), t.ContentType, t.Key, headers, body, encoding,
		}
		for i, cell := range row {
			row[i] = harmless(cell)
		}
		if err := w.Write(row); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// harmless makes a cell one that no spreadsheet takes for a formula.
func harmless(cell string) string {
	switch r, _ := utf8.DecodeRuneInString(cell); r {
	case '=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠':
		return "'" + cell
	}
	return cell
}

// plainText says whether a body is text without control characters that readers of CSV stumble over.
func plainText(b []byte) bool {
	for _, c := range b {
		if c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(b)
}
