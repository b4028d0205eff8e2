package fsmtest

import (
	"bytes"
	"reflect"

	"github.com/quorate/quorate/fsm"
)

// unjittered takes out what is drawn from ids and names.
func unjittered(e *fsm.Entry) {
	*e = walk(*e, func(v reflect.Value, field string) {
		if field == "JitterMillis" {
			v.SetInt(0)
		}
	}).(fsm.Entry)
}

// renamed is an entry with all its ids that much later.
func renamed(e fsm.Entry, by uint64) fsm.Entry {
	if by == 0 {
		return e
	}
	return walk(e, shiftIDs(by)).(fsm.Entry)
}

var idType = reflect.TypeFor[fsm.ID]()

// shiftIDs moves every id to a later entry, those that are text in a task id too.
func shiftIDs(by uint64) func(v reflect.Value, field string) {
	later := func(id fsm.ID) fsm.ID { return fsm.MakeID(id.Epoch(), id.Group(), id.Index()+by, id.Offset()) }
	return func(v reflect.Value, field string) {
		switch {
		case v.Type() == idType:
			if id := v.Interface().(fsm.ID); !id.IsZero() {
				v.Set(reflect.ValueOf(later(id)))
			}
		case field == "TaskID" && v.Len() == fsm.IDTextSize:
			if id, err := fsm.ParseID(string(v.Bytes())); err == nil && !id.IsZero() {
				v.SetBytes(fsm.AppendID(nil, later(id)))
			}
		case field == "Index" && v.Kind() == reflect.Uint64, field == "Mapping" && v.Uint() != 0: // a generation is an index
			v.SetUint(v.Uint() + by)
		}
	}
}

// otherNames gives everything that has a name, but for message keys, another one of the same length.
func otherNames(v reflect.Value, field string) {
	switch field {
	case "Queue", "Name", "TaskID", "Kind", "Worker", "DeadLetterQueue":
		switch {
		case v.Kind() == reflect.String:
			v.SetString(string(otherName([]byte(v.String()))))
		case v.Kind() != reflect.Slice || v.Type().Elem().Kind() != reflect.Uint8:
		case field == "TaskID" && v.Len() == fsm.IDTextSize:
			if _, err := fsm.ParseID(string(v.Bytes())); err != nil {
				v.SetBytes(otherName(v.Bytes()))
			}
		default:
			v.SetBytes(otherName(v.Bytes()))
		}
	case "DedupKey":
		for i := range v.Len() {
			v.Index(i).SetUint(v.Index(i).Uint() ^ 0x5A)
		}
	}
}

// otherName turns letters into others, in a way that can be turned back, and leaves all else: of what a schedule makes the task id ends in
// the time.
func otherName(b []byte) []byte {
	b = bytes.Clone(b)
	for i, c := range b {
		switch {
		case c >= 'a' && c <= 'z':
			b[i] = 'a' + 'z' - c
		case c >= 'A' && c <= 'Z':
			b[i] = 'A' + 'Z' - c
		}
	}
	return b
}

// walk copies a value and calls change for everything in it that is an id, a number, a string or bytes, with the name of the field that
// holds it.
func walk(x any, change func(v reflect.Value, field string)) any {
	out := reflect.New(reflect.TypeOf(x)).Elem()
	copyInto(out, reflect.ValueOf(x), "", change)
	return out.Interface()
}

func copyInto(to, from reflect.Value, field string, change func(v reflect.Value, field string)) {
	switch from.Kind() {
	case reflect.Pointer, reflect.Interface:
		if from.IsNil() {
			return
		}
		inner := from.Elem()
		made := reflect.New(inner.Type())
		copyInto(made.Elem(), inner, field, change)
		if from.Kind() == reflect.Pointer {
			to.Set(made)
		} else {
			to.Set(made.Elem())
		}
	case reflect.Struct:
		to.Set(from)
		if from.Type() == idType {
			change(to, field)
			return
		}
		for i := range from.NumField() {
			if f := from.Type().Field(i); f.IsExported() {
				copyInto(to.Field(i), from.Field(i), f.Name, change)
			}
		}
	case reflect.Slice:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		reflect.Copy(to, from)
		if from.Type().Elem().Kind() == reflect.Uint8 {
			change(to, field)
			return
		}
		for i := range from.Len() {
			copyInto(to.Index(i), from.Index(i), field, change)
		}
	default:
		to.Set(from)
		change(to, field)
	}
}
