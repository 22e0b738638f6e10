package zookeeper

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	defaultPath = "/timeout/members"
	maxPath     = 1024
)

// Config has the settings of Members. The zero value of each field means the default.
type Config struct {
	// Path is the parent znode of the nodes. Centers with different paths know nothing of each
	// other. If it is missing, a heartbeat creates it, and its parents. At most 1024 bytes. Empty
	// means "/timeout/members".
	Path string

	// Scheme and Auth are the credentials, such as "digest" and "user:password". An empty
	// Scheme means none.
	Scheme string
	Auth   []byte

	// ACL is the access list of new znodes. Nil means that everybody may do everything.
	ACL []zk.ACL

	// Dial connects to a server; (*tls.Dialer).DialContext does so with TLS. Nil means the
	// DialContext of a zero net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Logger gets the log of the client, at level debug. Nil drops it: everything important is
	// in the errors.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Path = cmp.Or(c.Path, defaultPath)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.ACL == nil {
		c.ACL = zk.WorldACL(zk.PermAll)
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	return c
}

func (c Config) check() error {
	switch {
	case len(c.Path) > maxPath:
		return fmt.Errorf("%w: Path of %d bytes, must have at most %d", engine.ErrArgument, len(c.Path), maxPath)
	case !strings.HasPrefix(c.Path, "/"), strings.HasSuffix(c.Path, "/"), strings.Contains(c.Path, "//"), strings.ContainsRune(c.Path, 0):
		return fmt.Errorf("%w: Path %q, must be names that each follow a slash", engine.ErrArgument, c.Path)
	}
	for part := range strings.SplitSeq(c.Path[1:], "/") {
		if part == "." || part == ".." {
			return fmt.Errorf("%w: Path %q, must not have a name %q", engine.ErrArgument, c.Path, part)
		}
	}
	return nil
}

// checkServers returns the servers, each with a port.
func checkServers(servers []string) ([]string, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("%w: servers %q, must have at least one", engine.ErrArgument, servers)
	}
	for _, server := range servers {
		host, _, err := net.SplitHostPort(server)
		if strings.TrimSpace(server) == "" || strings.Contains(server, "/") || err == nil && host == "" {
			return nil, fmt.Errorf("%w: servers %q, must each be a host or host:port", engine.ErrArgument, servers)
		}
	}
	return zk.FormatServers(servers), nil
}
