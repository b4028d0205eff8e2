package client

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/quorate/quorate/bench/leaks"
)

var seedFlag = flag.Uint64("seed", 0, "seed of back-off jitter and of random tests; 0: drawn and printed")

var roundsFlag = flag.Int("rounds", 1, "rounds of TestRandomFaults, each with the next seed")

var seed = sync.OnceValue(func() uint64 {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64() | 1
	}
	fmt.Fprintf(os.Stderr, "seed %d\n", s)
	return s
})

func TestMain(m *testing.M) {
	flag.Parse()
	leaks.Main(m)
}
