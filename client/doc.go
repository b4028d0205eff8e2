// Package client is the Go SDK of Quorate.
package client
