package etcd

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	defaultPrefix = "/timeout/members/"
	maxPrefix     = 1024
)

// Config is what Members can be told. The zero value of each field means the default.
type Config struct {
	// Prefix is what all keys begin with: centres with different ones know nothing of each
	// other. At most 1024 bytes. Empty means "/timeout/members/". It should end with what
	// ends a name where you use etcd, so that it is not the beginning of another one.
	Prefix string

	// Username and Password are for Open. Empty means that etcd asks for none.
	Username, Password string

	// TLS is for Open. Nil means that of an endpoint with "https" is the system's.
	TLS *tls.Config
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	return c
}

func (c Config) check() error {
	if len(c.Prefix) > maxPrefix {
		return fmt.Errorf("%w: Prefix of %d bytes, must have at most %d", timeout.ErrArgument, len(c.Prefix), maxPrefix)
	}
	return nil
}

func checkEndpoints(endpoints []string) error {
	if len(endpoints) == 0 {
		return fmt.Errorf("%w: endpoints %q, must have at least one", timeout.ErrArgument, endpoints)
	}
	for _, endpoint := range endpoints {
		if strings.TrimSpace(endpoint) == "" {
			return fmt.Errorf("%w: endpoints %q, must not have an empty one", timeout.ErrArgument, endpoints)
		}
	}
	return nil
}
