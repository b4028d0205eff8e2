package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

// keyFlags are a queue's options of message keys as flags.
type keyFlags struct {
	inFlight, burst int64
	rate            thousandths
	fairBy          string
	weights         []string
}

func (f *keyFlags) bind(fl *pflag.FlagSet) {
	fl.Int64Var(&f.inFlight, "max-in-flight-per-key", 0, "messages of one key leased at once; 0 for no limit; not in an ordered queue")
	fl.Var(&f.rate, "rate-per-key", "deliveries a second of each key, as --rate; not in a fifo queue")
	fl.Int64Var(&f.burst, "burst-per-key", 0, "deliveries of a key at once that --rate-per-key allows; 0 for one second's worth, at least 1")
	fl.StringVar(&f.fairBy, "fair-by", "", "who takes turns within a priority: none, or key; messages without a key are one key together (default none)")
	fl.StringArrayVar(&f.weights, "fair-weight", nil, "KEY=N: the turn of this key is N messages, 1 to 100, instead of one; again for more keys; \"\" for none")
}

// options overlays the given flags on o.
func (f *keyFlags) options(given func(string) bool, o *client.QueueOptions) error {
	if given("max-in-flight-per-key") {
		o.MaxInFlightPerKey = f.inFlight
	}
	if given("rate-per-key") {
		if o.RatePerKey = f.rate.number(); f.rate == 0 { // which takes the burst with it
			o.BurstPerKey = 0
		}
	}
	if given("burst-per-key") {
		o.BurstPerKey = f.burst
	}
	if given("fair-by") {
		if o.FairBy = f.fairBy; f.fairBy != wire.FairByKey { // and the weights
			o.FairWeights = nil
		}
	}
	if given("fair-weight") {
		weights, err := parseWeights(f.weights)
		if err != nil {
			return err
		}
		o.FairWeights = weights
	}
	return nil
}

// parseWeights reads KEY=N, of which the key may hold any =.
func parseWeights(texts []string) (map[string]int, error) {
	weights := map[string]int{}
	for _, t := range texts {
		if t == "" && len(texts) == 1 {
			return nil, nil
		}
		at := strings.LastIndexByte(t, '=')
		n, err := strconv.Atoi(t[at+1:])
		if at <= 0 || err != nil {
			return nil, usagef("--fair-weight %q: KEY=N expected, such as tenant-7=3", t)
		}
		if _, twice := weights[t[:at]]; twice {
			return nil, usagef("--fair-weight %q: this key has been given already", t)
		}
		weights[t[:at]] = n
	}
	return weights, nil
}

// weightsText is one line of KEY=N, in the order of keys.
func weightsText(m map[string]int) string {
	if len(m) == 0 {
		return "none"
	}
	all := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%s=%d", excerpt([]byte(k)), m[k]))
	}
	return strings.Join(all, " ")
}

// weightsJSON is never null.
func weightsJSON(m map[string]int) map[string]int {
	if m == nil {
		return map[string]int{}
	}
	return m
}

// weightsWire are declared weights, in the order of keys.
func weightsWire(m map[string]int) (ws []wire.FairWeight) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		ws = append(ws, wire.FairWeight{Key: wire.Bytes(k), Weight: int64(m[k])})
	}
	return ws
}
