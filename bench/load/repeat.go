package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// maxRepeat bounds Repeat.
const maxRepeat = 100

// Repeat runs cfg k times, one after the other, and returns the run with the median rate, or, for W4 and W5, where the
// rate is given or follows from it, the median confirmation latency. Runs lists the rates of all, in their order. each, if not nil, sees
// every result as it comes. What went wrong in any run is in the returned counts, so that a median does not hide it.
func Repeat(ctx context.Context, cfg Config, k int, each func(*Result)) (*Result, error) {
	if k < 1 || k > maxRepeat {
		return nil, fmt.Errorf("bench: repeat is %d; 1 to %d are allowed", k, maxRepeat)
	}
	var all []*Result
	for i := range k {
		res, err := Run(ctx, cfg)
		if err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", i+1, k, err)
		}
		if each != nil {
			each(res)
		}
		all = append(all, res)
	}
	return median(all), nil
}

func median(all []*Result) *Result {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b *Result) int {
		if (a.Workload == W4 || a.Workload == W5) && a.Confirm != nil && b.Confirm != nil {
			return cmp.Compare(a.Confirm.P50, b.Confirm.P50)
		}
		return cmp.Compare(a.Rate, b.Rate)
	})
	m := *sorted[(len(sorted)-1)/2]
	m.Errors, m.Unknown, m.Recovered, m.Lost, m.Duplicates, m.Unexpected, m.Early, m.OutOfOrder = 0, 0, 0, 0, 0, 0, 0, 0
	m.Samples = nil
	for _, r := range all {
		m.Runs = append(m.Runs, r.Rate)
		m.add(r)
	}
	return &m
}
