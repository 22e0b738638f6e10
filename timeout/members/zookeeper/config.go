package zookeeper

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	defaultPath = "/timeout/members"
	maxPath     = 1024
)

// Config is what Members can be told. The zero value of each field means the default.
type Config struct {
	// Path is the znode whose children are the nodes: centres with different ones know nothing
	// of each other. It is made, with those above it, if it is not there. At most 1024 bytes.
	// Empty means "/timeout/members".
	Path string

	// Scheme and Auth are who this is, such as "digest" and "user:password". An empty Scheme
	// means nobody.
	Scheme string
	Auth   []byte

	// ACL is of the znodes that are made. Nil means that everybody may do everything.
	ACL []zk.ACL

	// Dial connects to a server, such as (*tls.Dialer).DialContext. Nil means a net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Logger gets what the client has to say, at the level of debugging. Nil means that it is
	// dropped: what matters is in the errors.
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
		return fmt.Errorf("%w: Path of %d bytes, must have at most %d", timeout.ErrArgument, len(c.Path), maxPath)
	case !strings.HasPrefix(c.Path, "/"), strings.HasSuffix(c.Path, "/"), strings.Contains(c.Path, "//"), strings.ContainsRune(c.Path, 0):
		return fmt.Errorf("%w: Path %q, must be names that each follow a slash", timeout.ErrArgument, c.Path)
	}
	for part := range strings.SplitSeq(c.Path[1:], "/") {
		if part == "." || part == ".." {
			return fmt.Errorf("%w: Path %q, must not have a name %q", timeout.ErrArgument, c.Path, part)
		}
	}
	return nil
}

// checkServers returns the servers with their ports.
func checkServers(servers []string) ([]string, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("%w: servers %q, must have at least one", timeout.ErrArgument, servers)
	}
	for _, server := range servers {
		host, _, err := net.SplitHostPort(server)
		if strings.TrimSpace(server) == "" || strings.Contains(server, "/") || err == nil && host == "" {
			return nil, fmt.Errorf("%w: servers %q, must each be a host or host:port", timeout.ErrArgument, servers)
		}
	}
	return zk.FormatServers(servers), nil
}
