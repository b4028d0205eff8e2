//go:build !chaos && !profile

package main

import (
	"net/http"

	"github.com/quorate/quorate/cluster"
)

// debugHandler is nil: only a chaos build has seams for its harness, and a profile build has profiles.
func debugHandler(*cluster.Node) http.Handler { return nil }
