package redis

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	defaultPrefix = "timeout"
	defaultPoll   = 250 * time.Millisecond
	maxPrefix     = 100

	// MaxExecutions is the most of Config.Executions.
	MaxExecutions = 100
)

// Config is what an engine can be told. The zero value of each field means the default.
type Config struct {
	// Prefix is what all keys begin with, and the channel's name: centers with different ones
	// know nothing of each other. At most 100 bytes, without braces. Empty means "timeout".
	Prefix string

	// PollInterval is the time between two questions to a partition with nothing due, as far as this
	// engine knows. Tasks of other processes may be that late, unless Wake runs. Zero means 250ms.
	// If it is negative, each Lease asks every partition.
	PollInterval time.Duration

	// Executions is how many ended attempts of each existing task are kept for Engine.Executions: the last ones, at
	// most MaxExecutions, and fewer if they have more than 16 KiB, since each attempt rewrites the log of its task. Zero
	// means none. An engine adds to the logs as its own Config says, and deletes them with their tasks in any case.
	Executions int

	// Logger gets a line when a server begins to fail while others answer, when it fails no more, and for tasks
	// that are lost since somebody else has deleted a part of them. Nil means slog's default.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.PollInterval = cmp.Or(c.PollInterval, defaultPoll)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func (c Config) check() error {
	if len(c.Prefix) > maxPrefix || strings.ContainsAny(c.Prefix, "{}") {
		return fmt.Errorf("%w: Prefix %.120q, must be at most %d bytes without braces", engine.ErrArgument, c.Prefix, maxPrefix)
	}
	if c.Executions < 0 || c.Executions > MaxExecutions {
		return fmt.Errorf("%w: Executions %d, must be 0 to %d", engine.ErrArgument, c.Executions, MaxExecutions)
	}
	return nil
}

// Open connects to the server of a URL, "redis://user:password@host:port/db", with "rediss"
// for TLS and "unix" for a socket. If the server is part of a Cluster, the engine uses all of
// it. The error wraps ErrArgument if the URL is none, and if a server that answers is older than 7.0 or
// evicts keys.
func Open(ctx context.Context, url string, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r, err := redisrun.Open(ctx, url, names)
	if err != nil {
		return nil, err
	}
	return newEngine(r, cfg), nil
}

// New makes an engine of a client: a *redis.Client or a *redis.ClusterClient of go-redis. The
// caller closes the client. It must have MaxRetries -1, since Redis may have run a script even if
// the answer was lost. New asks the server for nothing.
func New(client goredis.UniversalClient, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r, err := redisrun.New(client, names)
	if err != nil {
		return nil, err
	}
	return newEngine(r, cfg), nil
}

var names = redisrun.Names{
	Package: "timeout/redis", Loss: "tasks",
	Argument: engine.ErrArgument, Closed: engine.ErrClosed, Full: engine.ErrFull,
}
