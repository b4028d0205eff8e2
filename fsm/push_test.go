package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// pushed are push options, all of them.
func pushed() QueueOptions {
	return QueueOptions{PushURL: "https://example.org/in", PushConcurrency: 3, PushTimeoutMillis: 2500, PushSecrets: []string{"new", "old"},
		PushPermanent: []int64{400, 410}, PushHeaders: []string{"traceparent", "x-a"}}
}

type badPush struct {
	name  string
	o     QueueOptions
	field Field
}

// badPushOptions are push options out of range.
func badPushOptions() (out []badPush) {
	add := func(name string, f Field, change func(o *QueueOptions)) {
		o := pushed()
		change(&o)
		out = append(out, badPush{name, o, f})
	}
	for _, url := range []string{"ftp://a", "http://", "https://", "HTTP://a", "/in", "http://a b", "http://a\r\nb", "http://ü", "http://a\x7f",
		"http://" + strings.Repeat("a", MaxPushURL-6)} {
		add(fmt.Sprintf("PushURL %.20q", url), FieldPushURL, func(o *QueueOptions) { o.PushURL = url })
	}
	for _, n := range []int64{-1 << 63, -1, MaxPushConcurrency + 1, 1<<63 - 1} {
		add(fmt.Sprint("PushConcurrency ", n), FieldPushConcurrency, func(o *QueueOptions) { o.PushConcurrency = n })
	}
	for _, n := range []int64{-1 << 63, -1, 1, MinPushTimeout - 1, MaxPushTimeout + 1, 1<<63 - 1} {
		add(fmt.Sprint("PushTimeoutMillis ", n), FieldPushTimeout, func(o *QueueOptions) { o.PushTimeoutMillis = n })
	}
	for _, s := range [][]string{{""}, {"a", "a"}, {".a"}, {"a b"}, {strings.Repeat("a", MaxPushSecretName+1)}, {"a", "b", "c", "d", "e"}} {
		add(fmt.Sprintf("PushSecrets %.20q", s), FieldPushSecrets, func(o *QueueOptions) { o.PushSecrets = s })
	}
	for _, s := range [][]int64{{399}, {500}, {429}, {410, 400}, {400, 400}, {-1}, make([]int64, MaxPushPermanent+1)} {
		add(fmt.Sprintf("PushPermanent %.20v", s), FieldPushPermanent, func(o *QueueOptions) { o.PushPermanent = s })
	}
	for _, s := range [][]string{{""}, {"b", "a"}, {"a", "a"}, {"X-A"}, {"a b"}, {"a:"}, {"host"}, {"content-type"}, {"webhook-id"}, {"quorate-x"},
		{"transfer-encoding"}, {"proxy-authorization"}, {strings.Repeat("a", MaxPushHeaderName+1)}, make([]string, MaxPushHeaders+1)} {
		add(fmt.Sprintf("PushHeaders %.20q", s), FieldPushHeaders, func(o *QueueOptions) { o.PushHeaders = s })
	}
	return out
}

// Push options at their limits are taken, kept by a snapshot and found by who pushes; those beyond are refused.
func TestPushOptions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	most := QueueOptions{PushURL: "http://" + strings.Repeat("a", MaxPushURL-7), PushConcurrency: MaxPushConcurrency, PushTimeoutMillis: MaxPushTimeout,
		PushSecrets: []string{strings.Repeat("z", MaxPushSecretName), "a", "c", "b"}}
	for i := range MaxPushPermanent {
		most.PushPermanent = append(most.PushPermanent, int64(430+i))
	}
	for i := range MaxPushHeaders {
		most.PushHeaders = append(most.PushHeaders, fmt.Sprintf("%0*d", MaxPushHeaderName, i))
	}
	some := pushed()
	named := QueueOptions{PushSecrets: []string{"a"}}
	for name, o := range map[string]QueueOptions{"most": most, "some": some, "named": named, "plain": {}} {
		r.ok(&CreateQueue{Name: []byte(name), Options: o})
	}
	for _, c := range badPushOptions() {
		r.refused(&CreateQueue{Name: []byte("bad"), Options: c.o}, InvalidArgument, c.field)
		r.refused(&SetQueue{Name: []byte("plain"), Options: c.o}, InvalidArgument, c.field)
	}
	r.everywhere()
	s, err := Restore(3, bytes.NewReader(snapshot(t, r.s)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, st := range []*State{r.s, s} {
		for name, want := range map[string]QueueOptions{"most": most, "some": some, "named": named, "plain": {}} {
			n, ok := st.QueueNumber([]byte(name))
			got := st.QueueOptions(n)
			want.Normalize()
			if !ok || !got.Equal(&want) {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
		for _, page := range []int{1, 2, 100} {
			var names []string
			rounds := 0
			for after, more := "", true; more; more = after != "" {
				after = st.EachPush(after, page, func(name string, o *QueueOptions) bool {
					names = append(names, name+" "+o.PushURL[:12])
					return true
				})
				if rounds++; rounds > 6 {
					t.Fatalf("pages of %d do not end", page)
				}
			}
			if want := []string{"most http://aaaaa", "some https://exam"}; !slices.Equal(names, want) {
				t.Errorf("in pages of %d: %q, want %q", page, names, want)
			}
		}
	}
}

// A snapshot without push is what earlier builds wrote; one with it is refused where what it holds cannot be.
func TestPushSnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok(&CreateQueue{Name: []byte("q")})
	before := snapshot(t, r.s)
	r.ok(&SetQueue{Name: []byte("q"), Options: pushed()})
	r.ok(&SetQueue{Name: []byte("q")})
	after := snapshot(t, r.s)
	if len(before) != len(after) {
		t.Errorf("%d bytes before and %d after push came and went", len(before), len(after))
	}
	r.ok(&SetQueue{Name: []byte("q"), Options: pushed()})
	good := snapshot(t, r.s)
	for _, c := range []struct {
		name, want string
		change     func(b []byte) []byte
	}{
		{"no URL of http", "push_url", func(b []byte) []byte { return bytes.Replace(b, []byte("https"), []byte("files"), 1) }},
		{"a secret twice", "push_secrets", func(b []byte) []byte { return bytes.Replace(b, []byte("new"), []byte("old"), 1) }},
		{"a header of its own", "push_headers", func(b []byte) []byte { return bytes.Replace(b, []byte("x-a"), []byte("\x00-a"), 1) }},
		{"the queue again", "after", func(b []byte) []byte { return append(b, b...) }},
		{"cut off", "record", func(b []byte) []byte { return b[:len(b)-1] }},
	} {
		_, err := Restore(3, bytes.NewReader(rewrite(t, good, sectionPush, c.change)))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want ErrFormat with %q", c.name, err, c.want)
		}
	}
}
