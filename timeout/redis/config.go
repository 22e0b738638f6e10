package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	defaultPrefix = "timeout"
	defaultPoll   = 250 * time.Millisecond
	maxPrefix     = 100
)

// Config is what an engine can be told. The zero value of each field means the default.
type Config struct {
	// Prefix is what all keys begin with, and the channel's name: centres with different ones
	// know nothing of each other. At most 100 bytes, without braces. Empty means "timeout".
	Prefix string

	// PollInterval is how long Expire leaves a slot alone where nothing was due as far as
	// this engine knows: tasks which other processes set may be that late, unless Wake runs.
	// Zero means 250ms; negative means that every slot is asked each time.
	PollInterval time.Duration
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.PollInterval = cmp.Or(c.PollInterval, defaultPoll)
	return c
}

func (c Config) check() error {
	if len(c.Prefix) > maxPrefix || strings.ContainsAny(c.Prefix, "{}") {
		return fmt.Errorf("%w: Prefix %.120q, must be at most %d bytes without braces", timeout.ErrArgument, c.Prefix, maxPrefix)
	}
	return nil
}

// Open connects to the server of a URL, "redis://user:password@host:port/db", with "rediss"
// for TLS and "unix" for a socket. Where that server is part of a Cluster, all of it is used.
// An error that wraps ErrArgument says that the URL is none, that the server is older than
// 7.0, or that it is set up to evict keys.
func Open(ctx context.Context, url string, cfg Config) (*Engine, error) {
	opts, err := goredis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("%w: URL of Redis: %w", timeout.ErrArgument, withoutSecret(err))
	}
	opts.DialerRetries = 1
	opts.MaxRetries = -1 // a script whose answer was lost may have been run
	opts.ContextTimeoutEnabled = true
	client := goredis.NewClient(opts)
	clustered, err := inspect(ctx, client)
	if err != nil {
		client.Close()
		return nil, err
	}
	if !clustered {
		return open(client, cfg, true)
	}
	client.Close()
	if opts.TLSConfig != nil {
		opts.TLSConfig.ServerName = "" // each server has a name of its own
	}
	return open(goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: []string{opts.Addr}, Username: opts.Username, Password: opts.Password, TLSConfig: opts.TLSConfig,
		DialTimeout: opts.DialTimeout, ReadTimeout: opts.ReadTimeout, WriteTimeout: opts.WriteTimeout,
		PoolSize: opts.PoolSize, ClientName: opts.ClientName, DialerRetries: 1, MaxRetries: -1, ContextTimeoutEnabled: true,
	}), cfg, true)
}

// withoutSecret takes what was to be parsed, which may hold a password, out of an error.
func withoutSecret(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// New makes an engine of a client, which stays the caller's to close: a *redis.Client or a
// *redis.ClusterClient of go-redis, made with MaxRetries -1, since a script whose answer was
// lost may have been run. It asks the server for nothing.
func New(client goredis.UniversalClient, cfg Config) (*Engine, error) {
	return open(client, cfg, false)
}

func open(client goredis.UniversalClient, cfg Config, own bool) (*Engine, error) {
	cfg = cfg.withDefaults()
	err := cfg.check()
	if err == nil {
		err = checkClient(client)
	}
	if err != nil {
		if own {
			client.Close()
		}
		return nil, err
	}
	return newEngine(client, cfg, own), nil
}

func checkClient(client goredis.UniversalClient) error {
	retries := 0
	switch client := client.(type) {
	case *goredis.Client:
		retries = client.Options().MaxRetries
	case *goredis.ClusterClient:
		retries = client.Options().MaxRetries
	default:
		return fmt.Errorf("%w: client is a %T, must be a *redis.Client or a *redis.ClusterClient", timeout.ErrArgument, client)
	}
	if retries > 0 {
		return fmt.Errorf("%w: MaxRetries %d of the client, must be -1: a script must not be run twice", timeout.ErrArgument, retries)
	}
	return nil
}

// inspect reports whether a server is part of a cluster, and refuses one that can't keep
// tasks.
func inspect(ctx context.Context, client *goredis.Client) (clustered bool, err error) {
	info, err := client.Info(ctx, "everything").Result()
	if err != nil {
		return false, fmt.Errorf("timeout/redis: asking the server what it is: %w", err)
	}
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	version := fields["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if number, err := strconv.Atoi(major); err == nil && number < 7 {
		return false, fmt.Errorf("%w: Redis is of version %s, must be 7.0 or newer", timeout.ErrArgument, version)
	}
	if policy := fields["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys") {
		return false, fmt.Errorf("%w: maxmemory-policy of Redis is %s, must be noeviction: tasks would be lost", timeout.ErrArgument, policy)
	}
	return fields["cluster_enabled"] == "1", nil
}
