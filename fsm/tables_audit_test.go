package fsm

import (
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/quorate/quorate/fsm/table"
)

// eachTable calls f for each table of records in a struct, by its path, with the number of its records.
func eachTable(v reflect.Value, path string, f func(name string, n int)) {
	for i := range v.NumField() {
		name, fv := path+v.Type().Field(i).Name, v.Field(i)
		typ := fv.Type()
		switch {
		case typ == reflect.TypeFor[table.Ints](): // a column beside the records of another table
		case typ.PkgPath() == "github.com/quorate/quorate/fsm/table":
			p := reflect.NewAt(typ, unsafe.Pointer(fv.UnsafeAddr()))
			f(name, int(p.MethodByName("Len").Call(nil)[0].Int()))
		case typ.Kind() == reflect.Struct && typ.PkgPath() == "github.com/quorate/quorate/fsm" && typ.Name() != "opScratch":
			eachTable(fv, name+".", f)
		}
	}
}

// rows are the fields of State that are lists and no tables, each with what bounds it.
var rows = map[string]string{
	"queues": "slots of tallies", "names": "queues", "clocks": "queues", "deadGroups": "bounds.deadGroups of each queue",
	"freeGroups": "deadGroups", "garbage": "a purge or deletion each, of what was held", "scheduleDefs": "slots of schedules",
	"scheduleNames": "schedules", "batches.ripe": "members that one operation ends", "meta": "one operation", "hist": "one history",
	"cmpLess": "clocks", "planned": "MaxVictims for each message of one operation", "parked": "leases of one entry",
	"ahead.acks": "aheadMost", "ahead.slots": "MaxBatch", "ahead.sides": "aheadMost", "ahead.blobs": "MaxBatch", "ahead.hashes": "MaxBatch",
}

// TestEveryTableIsBounded fails where State gets a table, or a list that may grow, that no case here fills to its maximum.
func TestEveryTableIsBounded(t *testing.T) {
	covered := map[string]bool{}
	for _, c := range tableCases() {
		for _, name := range c.tables {
			covered[name] = true
		}
		if (c.full == nil) == (c.dropped == nil) {
			t.Errorf("%s: either a refusal or a counter of what goes is wanted", c.name)
		}
	}
	s := New(1)
	defer s.Close()
	there := map[string]bool{}
	eachTable(reflect.ValueOf(s).Elem(), "", func(name string, _ int) {
		if there[name] = true; !covered[name] {
			t.Errorf("State.%s is a table without a case in tableCases: maximum, counter, refusal, and a test that fills it", name)
		}
	})
	for name := range covered {
		if !there[name] {
			t.Errorf("a case fills State.%s, which is no table", name)
		}
	}
	var lists []string
	var walk func(typ reflect.Type, path string)
	walk = func(typ reflect.Type, path string) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			switch {
			case f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map || f.Type.Kind() == reflect.Array && f.Type.Elem().Kind() != reflect.Uint8:
				lists = append(lists, path+f.Name)
			case f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == typ.PkgPath() && !slices.Contains(scratchFields, f.Name):
				walk(f.Type, path+f.Name+".")
			}
		}
	}
	walk(reflect.TypeFor[State](), "")
	for _, name := range lists {
		if rows[name] == "" {
			t.Errorf("State.%s is a list, and nothing says what bounds it", name)
		}
	}
}

// scratchFields of State hold one operation, or its effects, at a time.
var scratchFields = []string{"scratchFx", "dec", "op", "policyBuf", "callback", "template", "templateDec", "lim"}
