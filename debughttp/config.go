package debughttp

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/heartwheel-go/heartwheel/internal/argument"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

// ErrArgument says that an argument is out of bounds. The wrapping error names the value and the
// limit.
var ErrArgument error = argument.Error("debughttp")

const (
	// maxRecent is how many ends are kept, some 200 bytes each.
	maxRecent = 1000

	// maxRecentShown bounds a snapshot. The ends are its longest part by far.
	maxRecentShown = 64

	// maxIdlest is how many of the idlest connections are shown.
	maxIdlest = 20
)

// Config is the config of a [Handler]. The zero value is useful: it answers this machine and
// nobody else.
type Config struct {
	// Name is the heading of the page: the name of the server. Empty means the name of the
	// program.
	Name string

	// AllowRemote answers every request. Without it, a request must come from a loopback
	// address or a Unix socket, and must not be forwarded by a proxy. Its Host must be
	// localhost, a loopback address or in Hosts: otherwise a web page could have its name
	// resolve to this machine and read the answer. A tunnel, such as ssh -L, works without
	// AllowRemote.
	AllowRemote bool

	// Hosts are more names by which this machine may ask for the page. [CheckHost] does the
	// same for the other pages of a program.
	Hosts Hosts

	// HideAddrs shows a made-up name for a peer's host instead of its address. The name is
	// made with a random key: a host keeps its name as long as the Handler lives, so viewers
	// can follow it, and has another name in the next Handler.
	HideAddrs bool

	// Recent is how many ends of connections are kept for the page. Zero means 1000, negative
	// means none; at most 1000. Each takes some 200 bytes.
	Recent int

	// Label, if not nil, says what a connection is to the program, such as a client's ID. conn
	// is the connection as the program knows it, and keepalive.Of(conn).Value a good place for
	// the answer. Label is called by any goroutine, for each connection of a page and for each
	// one that ends; a search for labels calls it for every connection. So it must be quick and
	// must not block.
	Label func(conn any) string

	// Streams, if not nil, are the event streams of the server: the page shows their figures, too.
	Streams *ssekeepalive.Streams

	// CloseToken lets viewers with this secret close a connection, and shed some; 16 bytes at least. Empty
	// means that nobody can change anything here.
	CloseToken string
}

func (cfg Config) withDefaults(k *keepalive.Keeper) (Config, error) {
	switch {
	case k == nil:
		return cfg, fmt.Errorf("%w: Keeper is nil", ErrArgument)
	case k.Binder() == nil:
		return cfg, fmt.Errorf("%w: Keeper, must be one from keepalive.New", ErrArgument)
	case cfg.Streams != nil && cfg.Streams.Stats().Wheel.Tick == 0:
		return cfg, fmt.Errorf("%w: Streams, must be from ssekeepalive.New, or nil", ErrArgument)
	case cfg.Recent > maxRecent:
		return cfg, fmt.Errorf("%w: Recent %d, must be at most %d", ErrArgument, cfg.Recent, maxRecent)
	case cfg.CloseToken != "" && len(cfg.CloseToken) < minToken:
		return cfg, fmt.Errorf("%w: CloseToken has %d bytes, must have at least %d", ErrArgument, len(cfg.CloseToken), minToken)
	}
	if err := cfg.Hosts.Validate(); err != nil {
		return cfg, err
	}
	if cfg.Name == "" {
		cfg.Name = filepath.Base(os.Args[0])
	}
	if cfg.Recent == 0 {
		cfg.Recent = maxRecent
	}
	cfg.Recent = max(cfg.Recent, 0)
	return cfg, nil
}
