package etcd

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	defaultPrefix = "/timeout/members/"
	maxPrefix     = 1024
)

// Config has the settings of Members. The zero value of each field means the default.
type Config struct {
	// Prefix begins all keys. Centers with different prefixes know nothing of each other. At
	// most 1024 bytes. Empty means "/timeout/members/". End it with the separator of your
	// keys, such as a slash, so that no other prefix begins with it.
	Prefix string

	// Username and Password are for Open. Empty means that etcd needs none.
	Username, Password string

	// TLS is for Open. Nil means the system's configuration, for endpoints with "https".
	TLS *tls.Config
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	return c
}

func (c Config) check() error {
	if len(c.Prefix) > maxPrefix {
		return fmt.Errorf("%w: Prefix of %d bytes, must have at most %d", engine.ErrArgument, len(c.Prefix), maxPrefix)
	}
	return nil
}

func checkEndpoints(endpoints []string) error {
	if len(endpoints) == 0 {
		return fmt.Errorf("%w: endpoints %q, must have at least one", engine.ErrArgument, endpoints)
	}
	for _, endpoint := range endpoints {
		if strings.TrimSpace(endpoint) == "" {
			return fmt.Errorf("%w: endpoints %q, must not have an empty one", engine.ErrArgument, endpoints)
		}
	}
	return nil
}
