package httpcall

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// maxName is how many bytes a name in the DNS can have.
const maxName = 253

// methods are those of a callback. CONNECT and TRACE are not for targets.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}

// Check returns an error wrapping timeout.ErrArgument if the callback can never be made. It
// refuses another kind or method, a URL other than http or https, and headers that a callback
// may not set. The error names the value. It also wraps ErrRefused if the host is a refused
// address or name. Check does not resolve other names: each call checks their addresses.
func (c *Caller) Check(call timeout.Callback) error {
	_, err := c.check(call)
	return err
}

func (c *Caller) check(call timeout.Callback) (*url.URL, error) {
	if call.Kind != Kind {
		return nil, fmt.Errorf("%w: kind %.50q, must be %q", timeout.ErrArgument, call.Kind, Kind)
	}
	if err := call.Check(); err != nil {
		return nil, err
	}
	if call.Method != "" && !slices.Contains(methods, call.Method) {
		return nil, fmt.Errorf("%w: method %.50q, must be one of %q", timeout.ErrArgument, call.Method, methods)
	}
	if err := checkHeader(call.Header); err != nil {
		return nil, err
	}
	target, err := parseTarget(call.Target)
	if err != nil {
		return nil, err
	}
	if err := c.checkHost(hostOf(target)); err != nil {
		return nil, fmt.Errorf("%w: %w", timeout.ErrArgument, err)
	}
	return target, nil
}

// Circuit returns scheme, host and port of the callback's URL, in lower case. The port is always
// there, even the usual one. For a callback refused by Check it still returns a text.
func (c *Caller) Circuit(call timeout.Callback) string {
	target, err := parseTarget(call.Target)
	if err != nil {
		return Kind
	}
	return circuitOf(target)
}

func circuitOf(target *url.URL) string {
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	host := hostOf(target)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return target.Scheme + "://" + host + ":" + port
}

// hostOf returns the name or address in a URL, in lower case, without the dot at the end.
func hostOf(target *url.URL) string {
	return strings.ToLower(strings.TrimSuffix(target.Hostname(), "."))
}

// parseTarget reads a URL. Its errors don't repeat a possible password.
func parseTarget(text string) (*url.URL, error) {
	target, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, fmt.Errorf("%w: target, must be a URL: %w", timeout.ErrArgument, err)
	}
	if target.Scheme != "http" && target.Scheme != "https" {
		return nil, fmt.Errorf("%w: target with scheme %.50q, must be http or https", timeout.ErrArgument, target.Scheme)
	}
	host := hostOf(target)
	if _, err := netip.ParseAddr(host); err != nil && !isName(host) {
		return nil, fmt.Errorf("%w: target with host %.100q, must be a name in ASCII, or an address", timeout.ErrArgument, host)
	}
	if port := target.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("%w: target with port %.50s, must be 1 to 65535", timeout.ErrArgument, port)
		}
	}
	return target, nil
}

// isName reports whether host can be a name in the DNS. A name with a number as its last part
// is refused: some programs read 2130706433, 0177.0.0.1 and 0x7f.1 as 127.0.0.1.
func isName(host string) bool {
	if host == "" || len(host) > maxName {
		return false
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || strings.ContainsFunc(label, notInName) {
			return false
		}
	}
	last := strings.ToLower(labels[len(labels)-1])
	if hex, is := strings.CutPrefix(last, "0x"); is && strings.Trim(hex, "0123456789abcdef") == "" {
		return false
	}
	return strings.Trim(last, "0123456789") != ""
}

func notInName(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !letter && r != '-' && r != '_'
}

// checkHost refuses a host outside of Hosts, and one with a refused address if the address is
// known without the DNS.
func (c *Caller) checkHost(host string) error {
	if c.cfg.Hosts != nil && !slices.ContainsFunc(c.cfg.Hosts, func(allowed string) bool { return matches(host, allowed) }) {
		return fmt.Errorf("%w: host %.100q, must be one of Hosts", ErrRefused, host)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return c.guard.check(ip)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // always loopback: RFC 6761
		if err := c.guard.check(netip.IPv6Loopback()); err != nil {
			return c.guard.check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		}
	}
	return nil
}

func matches(host, allowed string) bool {
	if suffix, below := strings.CutPrefix(allowed, "*"); below {
		return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
	}
	return host == allowed
}
