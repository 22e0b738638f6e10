package httpcall

import (
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

// Config is what a [Caller] can be told. The zero Config calls public addresses only and
// signs nothing.
type Config struct {
	// Secrets sign the requests, each with a signature of its own: during a rotation
	// there are the new one and the old one. 24 to 64 bytes, as ParseSecret returns them.
	// Nil means that nothing is signed.
	Secrets [][]byte

	// Allow are addresses that may be called although they are refused otherwise, such as
	// 127.0.0.0/8. IPv4 is written as such, and counts for IPv4 in IPv6 as well.
	Allow []netip.Prefix

	// AllowPrivate allows the private networks: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16,
	// 100.64.0.0/10 and fc00::/7, but for addresses of cloud metadata in them.
	AllowPrivate bool

	// Hosts are the only ones that may be called: a name or an address as it is in the
	// URL, or "*.example.com" for all names below that one. The addresses must be allowed
	// all the same. Nil means any, and empty means none.
	Hosts []string

	// Timeout is how long a call may take that has no timeout of its own, from the wait for
	// a free connection to the head of the answer. Zero means 30s.
	Timeout time.Duration

	// MaxRetryAfter is the longest wait that a target can ask for. Zero means 1h.
	MaxRetryAfter time.Duration

	// MaxResponse is how many bytes of an answer's body are read, so that the connection
	// can be used again. With more, it is closed. Zero means 64 KiB.
	MaxResponse int

	// MaxPerHost is how many connections to one host there may be. Calls wait for a free
	// one. Zero means 64.
	MaxPerHost int

	// UserAgent is the header of that name where the callback has none. Empty means
	// "Heartwheel".
	UserAgent string

	// TLS is for targets with https. Nil means the system's certificates and TLS 1.2 or
	// newer.
	TLS *tls.Config

	// Proxy returns the proxy for a request, or nil. It is the proxy whose address is
	// dialed and must be allowed then; what is behind it the proxy must guard itself. Nil
	// means no proxy, also where the environment has one.
	Proxy func(*http.Request) (*url.URL, error)
}

// withDefaults returns the config with each zero replaced by what it means, or an error that
// names the value and its limit.
func (cfg Config) withDefaults() (Config, error) {
	if err := cfg.check(); err != nil {
		return cfg, err
	}
	cfg.Timeout = or(cfg.Timeout, defaultTimeout)
	cfg.MaxRetryAfter = or(cfg.MaxRetryAfter, defaultMaxRetryAfter)
	cfg.MaxResponse = or(cfg.MaxResponse, defaultMaxResponse)
	cfg.MaxPerHost = or(cfg.MaxPerHost, defaultMaxPerHost)
	cfg.UserAgent = or(cfg.UserAgent, defaultUserAgent)
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

func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
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
