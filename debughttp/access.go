package debughttp

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// forwarding are the headers by which proxies say that a request is not their own.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// refusal returns why a request gets no answer, or "" where it gets one.
func (h *Handler) refusal(r *http.Request) string {
	if h.cfg.AllowRemote {
		return ""
	}
	const advice = "Use a tunnel such as ssh -L, or, where others have been shut out, set AllowRemote in debughttp.Config."
	if !isLocal(r) {
		return fmt.Sprintf("debughttp: this page is for the machine that it runs on, and the request comes from %q. %s", r.RemoteAddr, advice)
	}
	for _, name := range forwarding {
		// Whatever it says: a client may send an empty one, which some proxies leave, and
		// add a line of their own.
		if _, ok := r.Header[name]; ok {
			return fmt.Sprintf("debughttp: this page is for the machine that it runs on, and the request was forwarded (header %s). %s", name, advice)
		}
	}
	if !isLoopbackHost(r.Host) && !isUnix(r) {
		return fmt.Sprintf("debughttp: the host %q is not a name of loopback: ask for localhost or 127.0.0.1. %s", r.Host, advice)
	}
	return ""
}

// isLocal reports whether a request comes from this machine.
func isLocal(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().IsLoopback() || isUnix(r)
}

// isUnix reports whether a request came by a Unix socket: no browser does that for the
// sake of a web page, and the socket's permissions say who may.
func isUnix(r *http.Request) bool {
	_, ok := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr)
	return ok
}

// isLoopbackHost reports whether what a client calls this server is a name of
// loopback, with or without a port. Any other name could be one whose owner has it
// resolved to loopback.
func isLoopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
