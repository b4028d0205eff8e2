package httpapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quorate/quorate/wire"
)

// exchange is one request and its answer.
type exchange struct {
	api     *API
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	id      string          // of the request, for logs and people
	ctx     context.Context // ended when it must wait no longer

	place    *atomic.Int64 // that it is counted in
	route    *route
	path     pathValues
	key      []string // of a KV route
	query    map[string]string
	queries  map[string][]string
	body     []byte
	kind     string // media type of the body, lower case, without parameters; "" where none was given
	held     int64  // bytes of the budget that the body takes
	override int    // status of a refusal, where the table of errors has no code for it
	success  int    // status of the answer, where it is not the route's
	status   int    // that was written
	tokens   []string
	idem     *Idempotency // nil: the caller has given no key
}

type pathValues map[string]string

// requestID is the caller's name for a request, if it can stand in a header and a log line, else one of our own.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	ok := len(id) > 0 && len(id) <= 128
	for i := 0; ok && i < len(id); i++ {
		ok = id[i] > ' ' && id[i] < 0x7f
	}
	if ok {
		return id
	}
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Identify puts what every answer of this API has into the answer to a request: its id, which is given back, and that it is neither kept nor taken
// for what it does not say it is.
func Identify(w http.ResponseWriter, r *http.Request) (id string) {
	id = requestID(r)
	h := w.Header()
	h.Set("X-Request-Id", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	return id
}

// bodiesBytes is how many bytes of bodies may be in memory at once.
const bodiesBytes = 64 << 20

// budget counts bytes that are held at once.
type budget struct {
	most int64
	used atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.most {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// read takes in the body: bounded in bytes and time, by itself and together with those of others.
func (x *exchange) read() *wire.Fault {
	a := x.api
	if e := x.r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		x.override = http.StatusUnsupportedMediaType
		return wire.Invalid("Content-Encoding", "%.40q; requests are read as they are: none would be right", e)
	}
	if ct := x.r.Header.Get("Content-Type"); ct != "" {
		kind, _, err := mime.ParseMediaType(ct)
		if err != nil {
			return wire.Invalid("Content-Type", "%.100q is no media type: %v", ct, err)
		}
		x.kind = kind
	}
	if x.r.ContentLength > a.maxBody {
		return a.bodyTooLarge(x)
	}
	_ = x.control.SetReadDeadline(time.Now().Add(a.cfg.BodyTimeout)) // without deadlines there are none to move
	var b []byte
	for {
		if len(b) == cap(b) {
			grow := max(512, len(b))
			if n := x.r.ContentLength - int64(len(b)) + 1; n > 0 && n < int64(grow) {
				grow = int(n)
			}
			if !a.bodies.take(int64(grow)) {
				return later(wire.NewFault(wire.CodeOverloaded, "the bodies of requests under way take %d bytes, as many as they may: try again", a.bodies.most), time.Second)
			}
			x.held += int64(grow)
			b = append(make([]byte, 0, len(b)+grow), b...)
		}
		n, err := x.r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if int64(len(b)) > a.maxBody {
			return a.bodyTooLarge(x)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			x.w.Header().Set("Connection", "close") // whatever is left of it is not read
			var late net.Error
			if errors.As(err, &late) && late.Timeout() {
				x.override = http.StatusRequestTimeout
				return wire.NewFault(wire.CodeInvalidArgument, "the body was not complete within %s", a.cfg.BodyTimeout)
			}
			return wire.NewFault(wire.CodeInvalidArgument, "the body cannot be read: %v", err)
		}
	}
	_ = x.control.SetReadDeadline(time.Time{}) // a deadline that passes would look like a caller who has gone
	x.body = b
	if len(b) > 0 && x.route.in == nil {
		return wire.NewFault(wire.CodeInvalidArgument, "a body of %d bytes: none is taken here", len(b))
	}
	return x.readKey()
}

func (a *API) bodyTooLarge(x *exchange) *wire.Fault {
	x.w.Header().Set("Connection", "close") // what is left of it is not read
	return wire.NewFault(wire.CodeTooLarge, "a body of more than %d bytes: max_message_bytes is %d, and a batch carries %d of bodies",
		a.maxBody, a.cfg.MaxMessageBytes, wire.MaxBatchBytes(a.cfg.MaxMessageBytes))
}

// isJSON says whether a body is meant to be JSON. What curl -d sends without a word about its type counts as such.
func (x *exchange) isJSON() bool {
	return x.kind == "" || isJSONType(x.kind) || x.kind == "application/x-www-form-urlencoded"
}

func isJSONType(kind string) bool {
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

// decode reads the JSON body into v. Names are exact, unknown ones and repeated ones are refused, and so is what is not UTF-8.
func (x *exchange) decode(v any) *wire.Fault {
	if len(bytes.TrimSpace(x.body)) == 0 && x.route.optional {
		return nil
	}
	if !x.isJSON() && x.route.raw == "" && !strings.HasPrefix(x.route.path, "/queue/") {
		x.override = http.StatusUnsupportedMediaType
		return wire.Invalid("Content-Type", "%.100q; application/json would be right", x.kind)
	}
	return unmarshal(x.body, v)
}

func unmarshal(b []byte, v any) *wire.Fault {
	err := json.Unmarshal(b, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	var fault *wire.Fault
	if errors.As(err, &fault) {
		return fault
	}
	field, why := "body", ""
	var meaning *json.SemanticError
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &meaning):
		field = pointed(meaning.JSONPointer)
		switch {
		case errors.Is(meaning.Err, json.ErrUnknownName):
			why = "no such field here"
		case meaning.GoType != nil:
			why = "is " + kindName(meaning.JSONKind) + "; " + wanted(meaning.GoType) + " would be right"
			if meaning.Err != nil {
				why = meaning.Err.Error() + "; " + wanted(meaning.GoType) + " would be right"
			}
		}
	case errors.As(err, &syntax):
		field, why = pointed(syntax.JSONPointer), syntax.Err.Error()
		if len(bytes.TrimSpace(b)) == 0 {
			why = "empty: a JSON object would be right"
		}
	}
	if why == "" {
		why = strings.TrimPrefix(err.Error(), "json: ")
	}
	return wire.Invalid(wire.CutText(field, 200), "%s", why)
}

// pointed is a JSON pointer as people write fields: messages[3].priority.
func pointed(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	if b.Len() == 0 {
		return "body"
	}
	return b.String()
}

// kindName is a kind of JSON in words.
func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[', ']':
		return "an array"
	}
	return "an object"
}

// wanted says what JSON a Go type is read from.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string of base64"
		}
		return "an array"
	}
	return "an object"
}

// do carries out requests of the protocol.
func (x *exchange) do(reqs ...Request) []Answer {
	for i := range reqs {
		reqs[i].Idempotency = x.idem
	}
	return x.api.cfg.Node.Do(x.ctx, x.r.Context(), reqs...)
}

// call carries out one request whose answer is a Rep.
func call[Rep any](x *exchange, t wire.Type, req any) (*Rep, *wire.Fault) {
	return answered[Rep](x, x.do(Request{Type: t, Body: req})[0])
}

func answered[Rep any](x *exchange, a Answer) (*Rep, *wire.Fault) {
	if a.Fault != nil {
		return nil, a.Fault
	}
	rep, ok := a.Body.(*Rep)
	if !ok {
		return nil, wire.NewFault(wire.CodeInternal, "an answer of type %d came for another request", a.Type)
	}
	if at := reflect.ValueOf(rep).Elem().FieldByName("At"); at.IsValid() {
		if at, ok := at.Interface().(wire.At); ok {
			x.stamp(at)
		}
	}
	return rep, nil
}

// stamp says at which place of the log the answer is true.
func (x *exchange) stamp(at wire.At) {
	if at.Index != 0 {
		x.w.Header().Set("Quorate-Index", strconv.FormatUint(at.Index, 10))
		x.w.Header().Set("Quorate-Time", strconv.FormatInt(at.Time, 10))
	}
}

// reply answers with JSON.
func (x *exchange) reply(v any) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		x.api.log.Error("an answer that is no JSON", "op", x.route.path, "err", err)
		x.refuse(wire.NewFault(wire.CodeInternal, "the answer cannot be written as JSON"))
		return
	}
	x.send(x.ok(), "application/json", append(b, '\n'))
}

func (x *exchange) ok() int {
	switch {
	case x.success != 0:
		return x.success
	case x.route.status != 0:
		return x.route.status
	}
	return http.StatusOK
}

// gzipLeast is the length from which an answer is worth compressing.
const gzipLeast = 1024

var zippers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is one that there is
	return z
}}

// answersBytes is how many bytes of large answers may wait for their readers; an answer is large from answersLarge on.
const (
	answersBytes = 256 << 20
	answersLarge = 64 << 10
)

// send writes the answer. Leases in it that cannot be written are given back.
func (x *exchange) send(status int, contentType string, b []byte) {
	if n := int64(len(b)); n >= answersLarge {
		if !x.api.answers.take(n) {
			if x.r.Method == http.MethodGet || len(x.tokens) > 0 { // nothing has happened, or it is undone
				x.giveBack()
				x.refuse(later(wire.NewFault(wire.CodeOverloaded, "answers of %d bytes wait to be read, as many as may: try again", x.api.answers.most), time.Second))
				return
			}
		} else {
			defer x.api.answers.give(n)
		}
	}
	x.status = status
	h := x.w.Header()
	if x.replayed() {
		h.Set(replayedHeader, "true")
	}
	h.Set("Content-Type", contentType)
	if x.route != nil && !x.route.secret && len(b) >= gzipLeast {
		h.Add("Vary", "Accept-Encoding")
		if acceptsGzip(x.r.Header.Get("Accept-Encoding")) {
			b = zipped(b)
			h.Set("Content-Encoding", "gzip")
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	_ = x.control.SetWriteDeadline(time.Now().Add(x.api.cfg.WriteTimeout)) // as above
	gone := x.r.Context().Err() != nil
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		if _, err := x.w.Write(b); err != nil || x.control.Flush() != nil {
			gone = true
		}
	}
	if gone {
		x.giveBack()
	}
}

// giveBack returns what was leased.
func (x *exchange) giveBack() {
	if len(x.tokens) > 0 {
		x.api.cfg.Node.GiveBack(x.tokens...)
		x.tokens = nil
	}
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z := zippers.Get().(*gzip.Writer)
	z.Reset(&out)
	_, _ = z.Write(b) // into memory
	_ = z.Close()
	zippers.Put(z)
	return out.Bytes()
}

// acceptsGzip reads an Accept-Encoding: gzip, or *, that is not ruled out by a weight of zero.
func acceptsGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name = strings.TrimSpace(name); !strings.EqualFold(name, "gzip") && name != "*" {
			continue
		}
		q, found := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !found || err == nil && weight > 0
	}
	return false
}
