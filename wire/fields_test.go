package wire

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// anyValue are the fields of requests for which no value is bad by itself, each with why.
var anyValue = map[string]string{
	"At.Index": "the server's", "Request.Number": "tried by TestValidate", "Request.Low": "tried by TestValidate",
	"Hello.Versions": "tried by TestValidate", "ResultList.After": "a position", "KVWatch.From": "a position",
	"Nack.Error": "its beginning is kept",
}

// otherNames are what faults call fields, or all of a struct, that have another name there, or that are one of two which contradict.
var otherNames = map[string]string{
	"DeadIDs.IDs": "ids", "RetryPolicy.MultiplierMilli": "multiplier", "QueueOptions.DeadRetentionMillis": "dead_letter_retention_ms",
	"QueueOptions.RateMilli": "rate", "QueueOptions.RatePerKeyMilli": "rate_per_key", "FairWeight": "fair_weights",
	"Message.EnqueueAt":        "enqueue_at|delay_ms",
	"TaskReschedule.EnqueueAt": "enqueue_at|delay_ms", "DeadList.Since": "since|until", "Result": "result",
}

// laterJudged are times, of which only the state knows how far ahead they are.
var laterJudged = map[string]bool{"Message.EnqueueAt": true, "TaskReschedule.EnqueueAt": true, "DeadList.Since": true, "DeadList.Until": true}

// validate calls a request's Validate, nil where it has none or is a server's frame.
func validate(body any) (f *Fault, ok bool) {
	m := reflect.ValueOf(body).MethodByName("Validate")
	if !m.IsValid() || m.Type().NumOut() != 1 {
		return nil, false
	}
	var in []reflect.Value
	switch {
	case m.Type().NumIn() == 1 && m.Type().In(0).Kind() == reflect.Int64:
		in = append(in, reflect.ValueOf(int64(4096)))
	case m.Type().NumIn() != 0:
		return nil, false
	}
	f, _ = m.Call(in)[0].Interface().(*Fault)
	if e, is := body.(*Enqueue); is && f == nil { // each of its messages is judged by itself
		for i := range e.Messages {
			f = first(f, e.Messages[i].Validate(4096))
		}
	}
	return f, true
}

// bad are values out of any range that a field of this kind has here.
func bad(v reflect.Value) (out []reflect.Value) {
	set := func(x any) { out = append(out, reflect.ValueOf(x).Convert(v.Type())) }
	switch v.Kind() {
	case reflect.String:
		set(strings.Repeat("x", 70_000))
		set("\xff")
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			set([]byte(strings.Repeat("x", 70_000)))
		}
	case reflect.Int64:
		set(int64(math.MinInt64))
		set(int64(math.MaxInt64))
	case reflect.Int32:
		set(int32(-1))
		set(int32(math.MaxInt32))
	case reflect.Uint8:
		set(uint8(math.MaxUint8))
	}
	return out
}

// TestEveryFieldIsJudged spoils every field of every request, one at a time. Each is refused by a fault that names the field, its
// value or length, and what would be right.
func TestEveryFieldIsJudged(t *testing.T) {
	tried := map[string]bool{}
	for _, e := range examples() {
		if f, ok := validate(e.body); !ok || f != nil {
			continue
		}
		var walk func(v reflect.Value, owner, field string)
		walk = func(v reflect.Value, owner, field string) {
			name := owner + "." + field
			if why := anyValue[name]; why != "" {
				return
			}
			switch {
			case v.Kind() == reflect.Pointer:
				if !v.IsNil() {
					walk(v.Elem(), owner, field)
				}
				return
			case v.Kind() == reflect.Struct:
				for i := range v.NumField() {
					if f := v.Type().Field(i); f.IsExported() {
						walk(v.Field(i), v.Type().Name(), f.Name)
					}
				}
				return
			case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
				for i := range v.Len() {
					walk(v.Index(i), owner, field)
				}
				return
			}
			for _, b := range bad(v) {
				good := reflect.New(v.Type()).Elem()
				good.Set(v)
				v.Set(b)
				f, _ := validate(e.body)
				v.Set(good)
				if f == nil && v.Kind() == reflect.Int64 && b.Int() == math.MaxInt64 && laterJudged[name] {
					continue
				}
				tried[name] = true
				names := cmp.Or(otherNames[name], otherNames[owner], snake(field))
				what := fmt.Sprintf("%s: %s of %.20q", e.name, name, fmt.Sprint(b.Interface()))
				switch {
				case f == nil:
					t.Errorf("%s is taken", what)
				case f.Code != CodeInvalidArgument && f.Code != CodeTooLarge || f.Unknown:
					t.Errorf("%s: %v, want a refusal for the argument", what, f)
				case !slices.ContainsFunc(strings.Split(names, "|"), func(n string) bool { return strings.Contains(f.Field, n) }):
					t.Errorf("%s: the fault names field %q, want %q in it", what, f.Field, names)
				case !strings.HasPrefix(f.Message, f.Field) || len(f.Message) < len(f.Field)+8 || len(f.Message) > MaxFaultBytes:
					t.Errorf("%s: the fault says %q", what, f.Message)
				}
			}
		}
		walk(reflect.ValueOf(e.body), "", "")
	}
	if len(tried) < 60 {
		t.Errorf("%d fields were tried: %v", len(tried), tried)
	}
}
