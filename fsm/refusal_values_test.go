package fsm

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

var (
	over   = func(n int) []byte { return bytes.Repeat([]byte("x"), n+1) } // one byte more than n
	noText = []byte{'a', 0xff}
)

// badMessages are messages that nobody may send, each by what it breaks.
func badMessages() []struct {
	name  string
	set   func(m *Message)
	field Field
	limit int64
} {
	type b = struct {
		name  string
		set   func(m *Message)
		field Field
		limit int64
	}
	out := []b{
		{"Body too long", func(m *Message) { m.Body = over(MaxBodyBytes) }, FieldBody, MaxBodyBytes},
		{"Kind too long", func(m *Message) { m.Kind = over(MaxKind) }, FieldKind, MaxKind},
		{"Kind not text", func(m *Message) { m.Kind = noText }, FieldKind, 0},
		{"ContentType too long", func(m *Message) { m.ContentType = over(MaxContentType) }, FieldContentType, MaxContentType},
		{"ContentType not text", func(m *Message) { m.ContentType = noText }, FieldContentType, 0},
		{"Headers too many", func(m *Message) { m.Headers = make([]Header, MaxHeaders+1) }, FieldHeaders, MaxHeaders},
		{"Headers.Name empty", func(m *Message) { m.Headers = []Header{{}} }, FieldHeaders, 0},
		{"Headers.Name too long", func(m *Message) { m.Headers = []Header{{Name: over(MaxHeaderName)}} }, FieldHeaders, MaxHeaderName},
		{"Headers.Name not text", func(m *Message) { m.Headers = []Header{{Name: noText}} }, FieldHeaders, 0},
		{"Headers.Value too long", func(m *Message) { m.Headers = []Header{{[]byte("n"), over(MaxHeaderValue)}} }, FieldHeaders, MaxHeaderValue},
		{"Headers.Value not text", func(m *Message) { m.Headers = []Header{{[]byte("n"), noText}} }, FieldHeaders, 0},
		{"Key too long", func(m *Message) { m.Key = over(MaxKey) }, FieldKey, MaxKey},
		{"Priority above", func(m *Message) { m.Priority = MaxPriority + 1 }, FieldPriority, MaxPriority},
		{"Priority far above", func(m *Message) { m.Priority = math.MaxUint8 }, FieldPriority, MaxPriority},
		{"Retry.Kind unknown", func(m *Message) { m.Retry.Kind = RetryExponential + 1 }, FieldRetry, 0},
	}
	for _, c := range []struct {
		name  string
		of    func(m *Message) *int64
		field Field
	}{
		{"DelayMillis", func(m *Message) *int64 { return &m.DelayMillis }, FieldDelay},
		{"DueAt", func(m *Message) *int64 { return &m.DueAt }, FieldDelay},
		{"TTLMillis", func(m *Message) *int64 { return &m.TTLMillis }, FieldTTL},
		{"TimeoutMillis", func(m *Message) *int64 { return &m.TimeoutMillis }, FieldTimeout},
	} {
		for _, v := range []int64{math.MinInt64, -1, MaxDelayMillis + 1, math.MaxInt64} {
			limit := int64(MaxDelayMillis)
			if v < 0 {
				limit = 0
			} else if c.name == "DueAt" && v != math.MaxInt64 {
				v += t0
			}
			out = append(out, b{fmt.Sprint(c.name, " ", v), func(m *Message) { *c.of(m) = v }, c.field, limit})
		}
	}
	for _, p := range badPolicies() {
		out = append(out, b{"Retry." + p.name, func(m *Message) { m.Retry = p.policy }, FieldRetry, 0})
	}
	return out
}

// badPolicies are retry policies out of range.
func badPolicies() (out []struct {
	name   string
	policy RetryPolicy
}) {
	add := func(name string, p RetryPolicy) {
		out = append(out, struct {
			name   string
			policy RetryPolicy
		}{name, p})
	}
	for _, v := range []int64{math.MinInt64, -1, MaxDelayMillis + 1, math.MaxInt64} {
		add(fmt.Sprint("InitialMillis ", v), RetryPolicy{Kind: RetryFixed, InitialMillis: v})
		add(fmt.Sprint("MaxMillis ", v), RetryPolicy{Kind: RetryLinear, MaxMillis: v})
		add(fmt.Sprint("JitterMillis ", v), RetryPolicy{Kind: RetryFixed, JitterMillis: v})
		add(fmt.Sprint("Steps ", v), RetryPolicy{Kind: RetrySchedule, Steps: []int64{1, v}})
	}
	for _, v := range []int64{math.MinInt64, 1, MinMultiplierMilli - 1, MaxMultiplierMilli + 1, math.MaxInt64} {
		add(fmt.Sprint("MultiplierMilli ", v), RetryPolicy{Kind: RetryExponential, MultiplierMilli: v})
	}
	for _, v := range []int32{math.MinInt32, -1, MaxRetryAttempts + 1, math.MaxInt32} {
		add(fmt.Sprint("MaxAttempts ", v), RetryPolicy{Kind: RetryFixed, MaxAttempts: v})
	}
	add("Steps of none", RetryPolicy{Kind: RetrySchedule})
	add("Steps too many", RetryPolicy{Kind: RetrySchedule, Steps: make([]int64, MaxRetrySteps+1)})
	add("Steps of another kind", RetryPolicy{Kind: RetryFixed, Steps: []int64{1}})
	return out
}

// badOptions are queue options out of range.
func badOptions() (out []struct {
	name    string
	options QueueOptions
	field   Field
}) {
	add := func(name string, o QueueOptions, f Field) {
		out = append(out, struct {
			name    string
			options QueueOptions
			field   Field
		}{name, o, f})
	}
	for _, c := range []struct {
		name   string
		of     func(o *QueueOptions) *int64
		lo, hi int64
		field  Field
	}{
		{"LeaseMillis", func(o *QueueOptions) *int64 { return &o.LeaseMillis }, MinLeaseMillis, MaxLeaseMillis, FieldLease},
		{"MaxDead", func(o *QueueOptions) *int64 { return &o.MaxDead }, 1, LimitMaxDead, FieldOptions},
		{"DeadRetentionMillis", func(o *QueueOptions) *int64 { return &o.DeadRetentionMillis }, 1000, LimitDeadRetention, FieldOptions},
		{"DedupWindowMillis", func(o *QueueOptions) *int64 { return &o.DedupWindowMillis }, 1000, MaxDelayMillis, FieldOptions},
		{"DedupMaxKeys", func(o *QueueOptions) *int64 { return &o.DedupMaxKeys }, 1, LimitDedupMaxKeys, FieldOptions},
		{"ResultTTLMillis", func(o *QueueOptions) *int64 { return &o.ResultTTLMillis }, 1000, MaxDelayMillis, FieldOptions},
		{"MaxResultsBytes", func(o *QueueOptions) *int64 { return &o.MaxResultsBytes }, 1, LimitMaxResultsBytes, FieldOptions},
		{"MaxDepth", func(o *QueueOptions) *int64 { return &o.MaxDepth }, 1, MaxQueueMessages, FieldDepth},
		{"MaxBytes", func(o *QueueOptions) *int64 { return &o.MaxBytes }, 1, LimitMaxBytes, FieldBytes},
		{"MaxInFlight", func(o *QueueOptions) *int64 { return &o.MaxInFlight }, 1, LimitMaxInFlight, FieldInFlight},
		{"MaxAgeMillis", func(o *QueueOptions) *int64 { return &o.MaxAgeMillis }, 1, MaxDelayMillis, FieldAge},
		{"RateMilli", func(o *QueueOptions) *int64 { return &o.RateMilli }, 1, LimitRateMilli, FieldRate},
		{"Burst", func(o *QueueOptions) *int64 { return &o.Burst }, 1, LimitBurst, FieldBurst},
		{"MaxInFlightPerKey", func(o *QueueOptions) *int64 { return &o.MaxInFlightPerKey }, 1, LimitMaxInFlight, FieldInFlightPerKey},
		{"RatePerKeyMilli", func(o *QueueOptions) *int64 { return &o.RatePerKeyMilli }, 1, LimitRateMilli, FieldRatePerKey},
		{"BurstPerKey", func(o *QueueOptions) *int64 { return &o.BurstPerKey }, 1, LimitBurst, FieldBurstPerKey},
	} {
		for _, v := range []int64{math.MinInt64, -1, c.lo - 1, c.hi + 1, math.MaxInt64} {
			if v == 0 { // the default
				continue
			}
			var o QueueOptions
			*c.of(&o) = v
			add(fmt.Sprint(c.name, " ", v), o, c.field)
		}
	}
	for _, p := range badPolicies() {
		add("Retry."+p.name, QueueOptions{Retry: p.policy}, FieldRetry)
	}
	add("Retry.Kind unknown", QueueOptions{Retry: RetryPolicy{Kind: 255}}, FieldRetry)
	add("DeadOverflow unknown", QueueOptions{DeadOverflow: DeadDropOldest + 1}, FieldOptions)
	add("Burst without RateMilli", QueueOptions{Burst: 1}, FieldBurst)
	for _, c := range badPushOptions() {
		add(c.name, c.o, c.field)
	}
	for _, c := range badMappingOptions() {
		add(c.name, c.o, c.field)
	}
	for _, c := range badKeyOptions() {
		add(c.name, c.o, c.field)
	}
	add("Overflow unknown", QueueOptions{Overflow: overflowEnd}, FieldOverflow)
	add("Delivery unknown", QueueOptions{Delivery: deliverEnd}, FieldDelivery)
	add("Ordering unknown", QueueOptions{Ordering: orderEnd}, FieldOrdering)
	for _, name := range badNames {
		add("DeadLetterQueue "+name[:min(len(name), 9)], QueueOptions{DeadLetterQueue: name}, FieldDeadLetterQueue)
	}
	return out
}

var badNames = []string{strings.Repeat("x", MaxQueueName+1), ".q", "a b", "a/b", "\xff", "q\x00"}
