package debughttp

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Hosts are the names by which requests may ask for pages, besides localhost. The zero value
// has no other name.
type Hosts struct {
	// Names are host names without a port, such as gateway.example. Case does not matter.
	Names []string

	// Setting is what a refusal calls Names, such as the flag of the program. Empty means
	// debughttp.Hosts.
	Setting string
}

// CheckHost protects pages from DNS rebinding: a stranger can have a name of his own resolve to
// this machine, and then a browser lets his web page read the answers. But the header Host still
// has his name.
//
// The result has next answer a request if its Host is an IP address, localhost or a name below
// localhost, one of the names in hosts, or empty, each with or without a port. So health
// checks by address work. A request by a Unix socket may have any Host. Other requests get
// status 403, and a sentence with the host and the setting.
//
// CheckHost returns [ErrArgument], wrapped with the name, for a name with impossible characters.
func CheckHost(next http.Handler, hosts Hosts) (http.Handler, error) {
	if err := hosts.Validate(); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostOf(r.Host); !isAddress(host) && !hosts.allow(host) && host != "" && !isUnix(r) {
			secure(w.Header())
			http.Error(w, fmt.Sprintf("debughttp: the host %.*q is not allowed: ask for an IP address or localhost, or add the name to %s.",
				maxName, r.Host, hosts.setting()), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

// Validate returns the error of [CheckHost] for these hosts.
func (h Hosts) Validate() error {
	for _, name := range h.Names {
		if name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			return fmt.Errorf("%w: %s has %.*q, must be names in ASCII, such as gateway.example, without a port", ErrArgument, h.setting(), maxName, name)
		}
	}
	return nil
}

func (h Hosts) setting() string {
	if h.Setting == "" {
		return "debughttp.Hosts"
	}
	return h.Setting
}

// allow reports whether a host, as hostOf returns it, is a name of loopback or one of h.
func (h Hosts) allow(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		slices.ContainsFunc(h.Names, func(name string) bool { return hostOf(name) == host })
}

// hostOf returns the host of a Host header, in small letters, without brackets and the dot of
// the root.
func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// isLoopback reports whether a host is an address of loopback.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
