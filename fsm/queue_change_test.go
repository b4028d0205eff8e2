package fsm

import (
	"reflect"
	"testing"
)

// TestEveryOptionCanBeChanged fails where an option of a queue cannot be changed by itself, or not as another one is named.
func TestEveryOptionCanBeChanged(t *testing.T) {
	var from QueueOptions
	v := reflect.ValueOf(&from).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("x")
		case reflect.Struct:
			if n := f.FieldByName("MaxAttempts"); n.IsValid() {
				n.SetInt(3)
			} else {
				f.FieldByName("Queue").SetString("x")
			}
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		default:
			if f.CanInt() {
				f.SetInt(1)
			} else {
				f.SetUint(1)
			}
		}
	}
	covered := make([]int, v.NumField())
	last := uint8(0)
	for _, c := range changeables {
		if c.key <= last || c.key > 63 {
			t.Errorf("%s has key %d after %d", c.name, c.key, last)
		}
		last = c.key
		set, ok := OptionNamed(c.name)
		if !ok || set != 1<<c.key || set.Len() != 1 {
			t.Errorf("%s is found as %#x", c.name, uint64(set))
		}
		var to QueueOptions
		set.merge(&to, &from)
		n := 0
		for i := range v.NumField() {
			if !reflect.ValueOf(to).Field(i).IsZero() {
				n++
				covered[i]++
			}
		}
		if n != 1 {
			t.Errorf("%s changes %d fields", c.name, n)
		}
	}
	for i, n := range covered {
		if n != 1 {
			t.Errorf("QueueOptions.%s is changed by %d names, want 1", v.Type().Field(i).Name, n)
		}
	}
}

// TestChangeQueue changes named options and no others, judged together with those that stay.
func TestChangeQueue(t *testing.T) {
	name := []byte("q")
	only := func(names ...string) (set OptionSet) {
		for _, n := range names {
			one, ok := OptionNamed(n)
			must(t, n, ok, true)
			set |= one
		}
		return set
	}
	r := limited(t, QueueOptions{MaxDepth: 5, LeaseMillis: 5000, Paused: true, Retry: RetryPolicy{Kind: RetrySchedule, Steps: []int64{7, 8}}})
	want := r.stats().Options
	check := func() {
		t.Helper()
		if got := r.stats().Options; !got.Equal(&want) {
			t.Fatalf("options %+v, want %+v", got, want)
		}
	}
	change := func(o QueueOptions, names ...string) *ChangeQueue {
		return &ChangeQueue{Name: name, Only: only(names...), Options: o}
	}
	r.ok(change(QueueOptions{MaxDepth: 9, LeaseMillis: 1234, MaxBytes: 3}, "max_depth", "paused"))
	want.MaxDepth, want.Paused = 9, false
	check()
	r.ok(change(QueueOptions{}, "lease_ms", "retry")) // unset is the default
	want.LeaseMillis, want.Retry = DefaultLeaseMillis, RetryPolicy{}
	want.Normalize()
	check()
	r.put(text("x"))
	for _, c := range []struct {
		op *ChangeQueue
		c  Code
		f  Field
	}{
		{change(QueueOptions{Ordering: OrderFIFO}, "ordering"), FailedPrecondition, FieldOrdering},
		{change(QueueOptions{Delivery: DeliverAtMostOnce}, "delivery"), FailedPrecondition, FieldDelivery},
		{change(QueueOptions{Burst: 3}, "burst"), InvalidArgument, FieldBurst},
		{change(QueueOptions{MaxDepth: -1}, "max_depth"), InvalidArgument, FieldDepth},
		{change(QueueOptions{DeadLetterQueue: "q"}, "dead_letter_queue"), InvalidArgument, FieldDeadLetterQueue},
		{&ChangeQueue{Name: name}, InvalidArgument, FieldOptions},
		{&ChangeQueue{Name: []byte("?"), Only: only("paused")}, InvalidArgument, FieldQueue},
		{&ChangeQueue{Name: []byte("other"), Only: only("paused")}, NotFound, FieldQueue},
	} {
		r.refused(c.op, c.c, c.f)
		check()
	}
	r.ok(change(QueueOptions{Ordering: OrderFIFO, MaxBytes: 77}, "max_bytes")) // what is not named is not looked at
	want.MaxBytes = 77
	check()
	r.ok(change(QueueOptions{Overflow: OverflowDropOldest}, "overflow"))
	want.Overflow = OverflowDropOldest
	check()
	r.everywhere()
}
