package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/quorate/quorate/wire"
)

// CheckOrigin judges one of Config.Origins.
func CheckOrigin(o string) error {
	u, err := url.Parse(o)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.ToLower(o) != o {
		return fmt.Errorf("origin %.200q: scheme://host or scheme://host:port as browsers send it, lower case, such as https://app.example.com would be right", o)
	}
	return nil
}

// admit keeps pages of other origins out, and those whose name has been made to resolve to this machine: there is no authentication, so
// a page in any browser here could otherwise read and drive the queues.
func (a *API) admit(x *exchange) *wire.Fault {
	r := x.r
	if r.Host != "" {
		host := r.Host
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "80")
		}
		if err := a.cfg.CheckHost(host); err != nil {
			return wire.NewFault(wire.CodePermissionDenied, "host %.100q: %v", r.Host, err)
		}
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && u.Scheme == "http" && strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	x.w.Header().Add("Vary", "Origin")
	if !slices.Contains(a.cfg.Origins, origin) {
		return wire.NewFault(wire.CodePermissionDenied, "origin %.100q may not use this API from a page of its own: list it under client.cors_origins", origin)
	}
	h := x.w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Quorate-Index, Quorate-Time, Quorate-Content-Type, "+replayedHeader+", Retry-After, Allow, Link")
	return nil
}

// preflight answers a browser that asks before it sends. Whoever comes here has been admitted.
func (x *exchange) preflight() bool {
	if x.r.Method != http.MethodOptions {
		return false
	}
	h := x.w.Header()
	h.Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	if x.r.Header.Get("Access-Control-Request-Method") != "" && h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", "Content-Type, X-Request-Id, "+keyHeader+", If-None-Match, Last-Event-ID")
		h.Set("Access-Control-Max-Age", "600")
	}
	x.status = http.StatusNoContent
	x.w.WriteHeader(x.status)
	return true
}
