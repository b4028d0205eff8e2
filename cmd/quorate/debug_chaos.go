//go:build chaos

package main

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/quorate/quorate/cluster"
)

// debugHandler is what the chaos harness asks of a node:
//
//	GET  /debug/statehash?at=INDEX  the state's digest at a checkpoint's index, in hex (a checkpoint is made by cluster verify)
//	POST /debug/clock?skew_ms=N     this node's wall clock is the machine's and N milliseconds, until set otherwise
func debugHandler(n *cluster.Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/statehash", func(w http.ResponseWriter, r *http.Request) {
		at, err := strconv.ParseUint(r.URL.Query().Get("at"), 10, 64)
		if err != nil {
			http.Error(w, "at: a log index is wanted", http.StatusBadRequest)
			return
		}
		sum, err := n.StateHash(r.Context(), at)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		fmt.Fprintln(w, hex.EncodeToString(sum[:]))
	})
	mux.HandleFunc("POST /debug/clock", func(w http.ResponseWriter, r *http.Request) {
		ms, err := strconv.ParseInt(r.URL.Query().Get("skew_ms"), 10, 64)
		if err != nil {
			http.Error(w, "skew_ms: a whole number of milliseconds is wanted", http.StatusBadRequest)
			return
		}
		if err := n.ShiftWall(time.Duration(ms) * time.Millisecond); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
