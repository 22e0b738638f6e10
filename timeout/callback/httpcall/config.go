package httpcall

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	defaultTimeout       = 30 * time.Second
	defaultMaxRetryAfter = time.Hour
	defaultMaxResponse   = 64 << 10
	defaultMaxPerHost    = 64 // as many as a topic runs at the same time by default
	defaultUserAgent     = "Heartwheel"
)

// Config is the configuration of a [Caller]. The zero Config calls public addresses only and
// signs nothing.
type Config struct {
	// Secrets sign the requests. Each adds a signature of its own, so the new and the old secret
	// can overlap during a rotation. Each has 24 to 64 bytes; ParseSecret returns them. Nil means
	// no signatures.
	Secrets [][]byte

	// Allow are special addresses open to calls all the same, such as 127.0.0.0/8. An IPv4 prefix
	// counts for IPv4 in IPv6 as well, and must not be written as IPv4 in IPv6.
	Allow []netip.Prefix

	// AllowPrivate allows the private networks: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16,
	// 100.64.0.0/10 and fc00::/7, except for the addresses of cloud metadata in them.
	AllowPrivate bool

	// Hosts are the only hosts open to calls: a name or an address as it is in the URL, or
	// "*.example.com" for all names below example.com. Their addresses must be allowed all the
	// same. Nil means any, and empty means none.
	Hosts []string

	// Timeout is how long a call may take if the callback has no Timeout: from the wait for a
	// free connection to the head of the answer. Zero means 30s.
	Timeout time.Duration

	// MaxRetryAfter is the longest wait granted to a target's Retry-After. Zero means 1h.
	MaxRetryAfter time.Duration

	// MaxResponse is how many bytes of an answer's body are read in order to use the connection
	// again. The connection is closed if the body is longer. Zero means 64 KiB.
	MaxResponse int

	// MaxPerHost is the greatest number of connections to one host. Calls wait for a free one.
	// Zero means 64.
	MaxPerHost int

	// UserAgent is the User-Agent header if the callback has none. Empty means "Heartwheel".
	UserAgent string

	// TLS is for targets with https. Nil means the system's certificates and TLS 1.2 or newer.
	TLS *tls.Config

	// Proxy returns the proxy for a request, or nil. With a proxy, the Caller dials and checks
	// the proxy's address only: the proxy itself must guard the network behind it. Nil means no
	// proxy, even if the environment has one.
	Proxy func(*http.Request) (*url.URL, error)
}

// withDefaults returns the config with defaults in place of zeros. The error names the value and
// its limit.
func (cfg Config) withDefaults() (Config, error) {
	if err := cfg.check(); err != nil {
		return cfg, err
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.MaxRetryAfter = cmp.Or(cfg.MaxRetryAfter, defaultMaxRetryAfter)
	cfg.MaxResponse = cmp.Or(cfg.MaxResponse, defaultMaxResponse)
	cfg.MaxPerHost = cmp.Or(cfg.MaxPerHost, defaultMaxPerHost)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, defaultUserAgent)
	cfg.Allow = slices.Clone(cfg.Allow)
	if cfg.Hosts != nil {
		hosts := make([]string, len(cfg.Hosts))
		for i, host := range cfg.Hosts {
			hosts[i] = strings.ToLower(strings.TrimSuffix(host, "."))
		}
		cfg.Hosts = hosts
	}
	return cfg, nil
}

func (cfg Config) check() error {
	for i, secret := range cfg.Secrets {
		if len(secret) < minSecret || len(secret) > maxSecret {
			return fmt.Errorf("%w: Secrets[%d] has %d bytes, must have %d to %d", timeout.ErrArgument, i, len(secret), minSecret, maxSecret)
		}
	}
	for _, prefix := range cfg.Allow {
		if !prefix.IsValid() || prefix.Addr().Is4In6() {
			return fmt.Errorf("%w: Allow %v, must be a prefix such as 127.0.0.0/8 or ::1/128", timeout.ErrArgument, prefix)
		}
	}
	for _, host := range cfg.Hosts {
		name := strings.TrimSuffix(strings.TrimPrefix(host, "*."), ".")
		if _, err := netip.ParseAddr(name); err != nil && !isName(name) {
			return fmt.Errorf("%w: Hosts %.100q, must be a name, an address, or *. and a name", timeout.ErrArgument, host)
		}
	}
	switch {
	case cfg.Timeout < 0:
		return fmt.Errorf("%w: Timeout %v, must not be negative", timeout.ErrArgument, cfg.Timeout)
	case cfg.MaxRetryAfter < 0:
		return fmt.Errorf("%w: MaxRetryAfter %v, must not be negative", timeout.ErrArgument, cfg.MaxRetryAfter)
	case cfg.MaxResponse < 0:
		return fmt.Errorf("%w: MaxResponse %d, must not be negative", timeout.ErrArgument, cfg.MaxResponse)
	case cfg.MaxPerHost < 0:
		return fmt.Errorf("%w: MaxPerHost %d, must not be negative", timeout.ErrArgument, cfg.MaxPerHost)
	case !httpguts.ValidHeaderFieldValue(cfg.UserAgent):
		return fmt.Errorf("%w: UserAgent %.100q, must have no control characters", timeout.ErrArgument, cfg.UserAgent)
	}
	return nil
}
