//go:build profile && !chaos

package main

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"

	"github.com/quorate/quorate/cluster"
)

// maxProfileRate is one event in so many, or one a second of blocking: so rare that it is none.
const maxProfileRate = 1_000_000_000

// debugHandler has a node's profiles, for bench/profile. No other build has them: they say much and cost something.
//
//	GET  /debug/pprof/…                     as net/http/pprof has it
//	POST /debug/rates?block_ns=N&mutex=N    block profile: one sample in N ns blocked; mutex profile: one in N; 0: none
func debugHandler(*cluster.Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("POST /debug/rates", func(w http.ResponseWriter, r *http.Request) {
		var rates [2]int
		for i, name := range []string{"block_ns", "mutex"} {
			n, err := strconv.ParseUint(r.URL.Query().Get(name), 10, 32)
			if err != nil || n > maxProfileRate {
				http.Error(w, fmt.Sprintf("%s: a number from 0 to %d is wanted", name, maxProfileRate), http.StatusBadRequest)
				return
			}
			rates[i] = int(n)
		}
		runtime.SetBlockProfileRate(rates[0])
		runtime.SetMutexProfileFraction(rates[1])
	})
	return mux
}
