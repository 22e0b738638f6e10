package debughttp

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
)

// forwarding are the headers of proxies for requests of others.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// refusal returns why a request gets no answer, or "" if it gets one.
func (h *Handler) refusal(r *http.Request) string {
	if h.cfg.AllowRemote {
		return ""
	}
	const advice = "Use a tunnel such as ssh -L, or shut strangers out and set AllowRemote in debughttp.Config."
	if !isLocal(r) {
		return fmt.Sprintf("debughttp: this page is for the machine that it runs on, and the request comes from %q. %s", r.RemoteAddr, advice)
	}
	for _, name := range forwarding {
		// The value does not matter. A client may send an empty header, and some proxies add
		// their own line after it.
		if _, ok := r.Header[name]; ok {
			return fmt.Sprintf("debughttp: this page is for the machine that it runs on, and the request was forwarded (header %s). %s", name, advice)
		}
	}
	if host := hostOf(r.Host); !isLoopback(host) && !h.cfg.Hosts.allow(host) && !isUnix(r) {
		return fmt.Sprintf("debughttp: the host %.*q is not a name of loopback: ask for localhost or 127.0.0.1, or add the name to %s. %s",
			maxName, r.Host, h.cfg.Hosts.setting(), advice)
	}
	return ""
}

// isLocal reports whether a request comes from this machine.
func isLocal(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().IsLoopback() || isUnix(r)
}

// isUnix reports whether a request came by a Unix socket. No browser uses one for a web page, and
// the socket has permissions.
func isUnix(r *http.Request) bool {
	_, ok := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr)
	return ok
}
