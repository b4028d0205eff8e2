package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/fsm"
)

// The judge of writes with keys sees what it is there for.
func TestKeyedJudge(t *testing.T) {
	t.Parallel()
	r := &keyedWrite{key: "sender-0:0"}
	at := func(index uint64, now int64, texts ...int) (out []history.Effect) {
		out = append(out, history.Effect{Op: history.Entry, Index: index, Time: now})
		for n, i := range texts {
			out = append(out, history.Effect{Op: history.Enqueue, Index: index, Queue: keyedQueue, Body: history.Sum([]byte(r.text(i))), Message: fmt.Sprintf("%d.%d", index, n)})
		}
		return out
	}
	join := func(all ...[]history.Effect) (out []history.Effect) {
		for _, es := range all {
			out = append(out, es...)
		}
		return out
	}
	first := [2]string{"1.0", "1.1"}
	for _, c := range []struct {
		name    string
		effects []history.Effect
		answers [][2]string
		fresh   int
		want    string
	}{
		{"once", at(1, 1000, 0, 1), [][2]string{first}, 1, ""},
		{"once, and never heard of", at(1, 1000, 0, 1), nil, 0, ""},
		{"refused first", join([]history.Effect{{Op: history.Enqueue, Index: 1, Queue: keyedQueue, Code: "queue_full"}}, at(1, 1000, 0, 1)), [][2]string{first}, 1, ""},
		{"never", nil, nil, 0, ""},
		{"again after an hour", join(at(1, 1000, 0, 1), at(2, 1000+fsm.IdempotencyMillis, 0, 1)), [][2]string{first, {"2.0", "2.1"}}, 2, ""},
		{"again within it", join(at(1, 1000, 0, 1), at(2, 999+fsm.IdempotencyMillis, 0, 1)), [][2]string{first}, 1, "within an hour"},
		{"twice in an entry", at(1, 1000, 0, 1, 0, 1), [][2]string{first}, 1, "within an hour"},
		{"by half", at(1, 1000, 0), nil, 0, "by half"},
		{"answered, and not there", nil, [][2]string{first}, 1, "which is not in the log"},
		{"answered otherwise", at(1, 1000, 0, 1), [][2]string{first, {"1.1", "1.0"}}, 1, "which is not in the log"},
		{"answered twice as new", at(1, 1000, 0, 1), [][2]string{first}, 2, "as if it were new"},
		{"somebody else's", []history.Effect{{Op: history.Enqueue, Index: 1, Queue: keyedQueue, Body: "x", Message: "1.0"}}, nil, 0, "nobody sent it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := &keyedWrite{key: r.key, answers: c.answers, fresh: c.fresh}
			var wrong []string
			other := history.Effect{Op: history.Enqueue, Index: 9, Queue: "other"}
			left := (&keyed{writes: []*keyedWrite{w}}).judge(append(c.effects, other), func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) })
			if said := strings.Join(wrong, "; "); (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
				t.Errorf("%q, want %q", said, c.want)
			}
			for _, e := range left {
				if e.Queue == keyedQueue {
					t.Errorf("%+v is left to others", e)
				}
			}
			if n := len(left); n == 0 || left[n-1].Queue != "other" {
				t.Error("what is others' is gone")
			}
		})
	}
}
