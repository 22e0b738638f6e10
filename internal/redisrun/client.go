// Package redisrun runs Lua scripts on Redis, alone or a Cluster: many in one round trip, each at
// most once. Without a Cluster, one run of a script can serve several slots.
package redisrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Names are the prefix of the errors, and the errors they wrap.
type Names struct {
	Package                string
	Argument, Closed, Full error
	Loss                   string // the things lost by a server with eviction
}

// Client is a client of a server or of a Cluster. Its methods may be called by several
// goroutines at the same time.
type Client struct {
	names   Names
	client  goredis.UniversalClient
	single  *goredis.Client        // or
	cluster *goredis.ClusterClient // one of both
	wait    time.Duration          // for an answer, at most; for ever if not positive
	ends    bool                   // a call ends with its context
	own     bool                   // Close closes the client
	closed  atomic.Bool
	silence *silence       // nil without Shun
	asking  sync.WaitGroup // the questions of Ready

	mu      sync.Mutex     // guards numbers, and the begin of asking
	numbers map[string]int // by address
}

// Open connects to the server of a URL. If that is part of a Cluster, all of it is used.
func Open(ctx context.Context, url string, names Names) (*Client, error) {
	opts, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("%w: URL of Redis: %w", names.Argument, err)
	}
	opts.DialerRetries = 1
	opts.MaxRetries = -1 // a script with a lost answer may have been run
	opts.ContextTimeoutEnabled = true
	client := goredis.NewClient(opts)
	clustered, err := inspect(ctx, client, names)
	if err != nil {
		client.Close()
		return nil, err
	}
	if !clustered {
		return open(client, names, true)
	}
	client.Close()
	if opts.TLSConfig != nil {
		opts.TLSConfig.ServerName = "" // each server has a name of its own
	}
	r, err := open(goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: []string{opts.Addr}, Username: opts.Username, Password: opts.Password, TLSConfig: opts.TLSConfig,
		DialTimeout: opts.DialTimeout, ReadTimeout: opts.ReadTimeout, WriteTimeout: opts.WriteTimeout,
		PoolSize: opts.PoolSize, ClientName: opts.ClientName, DialerRetries: 1, MaxRetries: -1, ContextTimeoutEnabled: true,
	}), names, true)
	if err != nil {
		return nil, err
	}
	if err := r.Inspect(ctx); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// parse reads a URL. Its error has no part of a password. If a password has a slash, a question mark or a number
// sign, the parser sees a port, a path or a query in it, and says so, or takes its beginning for the server.
func parse(url string) (*goredis.Options, error) {
	opts, err := goredis.ParseURL(url)
	_, rest, found := strings.Cut(url, "://")
	end := strings.IndexAny(rest, "/?#")
	switch cut := (*neturl.Error)(nil); {
	case errors.As(err, &cut), err != nil && end >= 0 && strings.Contains(rest[end:], "@"), strings.Contains(rest, "#"):
		return nil, errors.New("can't be parsed; a password must have %2F for a slash, and so on")
	case err == nil && !found:
		return nil, errors.New("has no // after its scheme, and so no server")
	}
	return opts, err
}

// New makes a Client of a *redis.Client or a *redis.ClusterClient, made with MaxRetries -1. The caller
// closes that client: Close does not. New asks the server for nothing.
func New(client goredis.UniversalClient, names Names) (*Client, error) {
	return open(client, names, false)
}

func open(client goredis.UniversalClient, names Names, own bool) (*Client, error) {
	r := &Client{names: names, client: client, own: own, numbers: make(map[string]int)}
	retries := 0
	switch client := client.(type) {
	case *goredis.Client:
		if client == nil {
			return nil, fmt.Errorf("%w: client is a nil *redis.Client", names.Argument)
		}
		opts := client.Options()
		r.single, r.wait, r.ends, retries = client, opts.ReadTimeout, opts.ContextTimeoutEnabled, opts.MaxRetries
	case *goredis.ClusterClient:
		if client == nil {
			return nil, fmt.Errorf("%w: client is a nil *redis.ClusterClient", names.Argument)
		}
		opts := client.Options()
		r.cluster, r.wait, r.ends, retries = client, opts.ReadTimeout, opts.ContextTimeoutEnabled, opts.MaxRetries
	default:
		return nil, fmt.Errorf("%w: client is a %T, must be a *redis.Client or a *redis.ClusterClient", names.Argument, client)
	}
	if retries > 0 {
		return nil, fmt.Errorf("%w: MaxRetries %d of the client, must be -1: a script must not be run twice", names.Argument, retries)
	}
	return r, nil
}

// Inspect refuses the same servers as Open, and a client of New without ContextTimeoutEnabled: its
// calls would outlive their context. Of a Cluster it asks all masters, and one must answer.
func (r *Client) Inspect(ctx context.Context) error {
	if !r.ends {
		return fmt.Errorf("%w: ContextTimeoutEnabled false of the client, must be true: a call would not end in time", r.names.Argument)
	}
	if r.cluster != nil {
		return r.inspectMasters(ctx)
	}
	clustered, err := inspect(ctx, r.single, r.names)
	if err == nil && clustered {
		err = fmt.Errorf("%w: Redis is part of a Cluster, the client must be a *redis.ClusterClient", r.names.Argument)
	}
	return r.Wrap(err)
}

func (r *Client) inspectMasters(ctx context.Context) error {
	var mu sync.Mutex // guards refused
	var refused error
	err := r.EachMaster(ctx, func(ctx context.Context, client *goredis.Client) error {
		_, err := inspect(ctx, client, r.names)
		if errors.Is(err, r.names.Argument) {
			mu.Lock()
			defer mu.Unlock()
			refused = err
		}
		return err
	})
	return cmp.Or(refused, err)
}

// inspect reports whether a server is part of a Cluster. It refuses Redis before 7.0, and a server
// with an eviction policy for all keys, since it would lose some.
func inspect(ctx context.Context, client *goredis.Client, names Names) (clustered bool, err error) {
	info, err := client.Info(ctx, "everything").Result()
	if err != nil {
		return false, fmt.Errorf("%s: asking the server what it is: %w", names.Package, err)
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
		return false, fmt.Errorf("%w: Redis is of version %s, must be 7.0 or newer", names.Argument, version)
	}
	if policy := fields["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys") {
		return false, fmt.Errorf("%w: maxmemory-policy of Redis is %s, must be noeviction: %s would be lost", names.Argument, policy, names.Loss)
	}
	return fields["cluster_enabled"] == "1", nil
}

// EachMaster asks all servers at the same time. It fails if none has answered.
func (r *Client) EachMaster(ctx context.Context, ask func(context.Context, *goredis.Client) error) error {
	if r.closed.Load() {
		return r.names.Closed
	}
	if r.cluster == nil {
		return r.Wrap(ask(ctx, r.single))
	}
	var mu sync.Mutex // guards the variables below
	var failed error
	answered := false
	err := r.cluster.ForEachMaster(ctx, func(ctx context.Context, client *goredis.Client) error {
		err := ask(ctx, client)
		mu.Lock()
		defer mu.Unlock()
		failed, answered = errors.Join(failed, err), answered || err == nil
		return nil
	})
	if answered {
		return nil
	}
	return r.Wrap(errors.Join(err, failed))
}

// readyScript does nothing. Redis refuses scripts without flags while it takes no changes: its memory
// is full, it can't save, or it is a replica. The argument is as large as a task may be, since it
// needs room as well.
const readyScript = "#!lua\nreturn 1"

var readyArgument = strings.Repeat("x", 16<<10)

// readyKeys is how many keys are looked up to find some of the masters of a Cluster.
const readyKeys = 16

// Ready returns nil as soon as one server takes changes, even while others hang.
func (r *Client) Ready(ctx context.Context) error {
	some, err := r.someMasters(ctx)
	if err != nil {
		return r.Wrap(err)
	}
	errs := make(chan error, len(some))
	r.mu.Lock()
	for client := range some {
		if r.closed.Load() {
			errs <- r.names.Closed
			continue
		}
		r.asking.Go(func() { errs <- r.Wrap(r.ready(ctx, client)) })
	}
	r.mu.Unlock()
	var failed error
	for range some {
		select {
		case err = <-errs:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// someMasters returns the server, or some of a Cluster.
func (r *Client) someMasters(ctx context.Context) (map[*goredis.Client]bool, error) {
	if r.cluster == nil {
		return map[*goredis.Client]bool{r.single: true}, nil
	}
	some := make(map[*goredis.Client]bool)
	for i := range readyKeys {
		client, err := r.cluster.MasterForKey(ctx, strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		some[client] = true
	}
	return some, nil
}

// silent returns an error if a server is silent.
func (r *Client) silent(ctx context.Context, client *goredis.Client) error {
	if err := r.silence.of(ctx, client); err != nil {
		return fmt.Errorf("%s: %w", r.names.Package, err)
	}
	return nil
}

// ready runs readyScript.
func (r *Client) ready(ctx context.Context, client *goredis.Client) error {
	if err := r.silent(ctx, client); err != nil {
		return err
	}
	if err := client.Eval(ctx, readyScript, nil, readyArgument).Err(); err != nil {
		return r.names.said("ready", err)
	}
	return nil
}

// Client returns the client of Redis in use.
func (r *Client) Client() goredis.UniversalClient { return r.client }

// ForKey returns the server of a key, for single commands.
func (r *Client) ForKey(ctx context.Context, key string) (*goredis.Client, error) {
	if r.closed.Load() {
		return nil, r.names.Closed
	}
	if r.cluster == nil {
		return r.single, nil
	}
	client, err := r.cluster.MasterForKey(ctx, key)
	return client, r.Wrap(err)
}

// OnKey asks the server of a key with single commands. As Run does, it fails at once if that hangs, and asks
// again if the server refuses for now or is the wrong one.
func (r *Client) OnKey(ctx context.Context, key string, ask func(*goredis.Client) error) error {
	for attempt := 0; ; attempt++ {
		err := r.onKey(ctx, key, ask)
		if err == nil || !hasCode(err, elsewhere...) || attempt == redirects {
			return err
		}
		if ended := r.rearranged(ctx, attempt); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// onKey is one attempt of OnKey.
func (r *Client) onKey(ctx context.Context, key string, ask func(*goredis.Client) error) error {
	client, err := r.ForKey(ctx, key)
	if err != nil {
		return err
	}
	if err := r.silent(ctx, client); err != nil {
		return err
	}
	err = ask(client)
	r.silence.suspect(client, err)
	return r.Wrap(err)
}

// Wait returns how long a call waits for an answer, at most: then it fails. Zero means for ever.
func (r *Client) Wait(ctx context.Context) time.Duration {
	wait := max(r.wait, 0)
	if end, ok := ctx.Deadline(); ok {
		left := max(time.Until(end), 1)
		wait = cmp.Or(min(wait, left), left)
	}
	return wait
}

// Clustered reports whether it is a client of a Cluster.
func (r *Client) Clustered() bool { return r.cluster != nil }

// Number returns the number of a key's server in a Cluster, or zero if no server is known for the key.
// No two servers have the same number. Number asks no server once the arrangement of the Cluster is
// known. A key moved to another server has the number of the new one.
func (r *Client) Number(key string) int {
	addr := r.Server(key)
	if addr == "" {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	number, known := r.numbers[addr]
	if !known {
		number = len(r.numbers) + 1
		r.numbers[addr] = number
	}
	return number
}

// Server returns the address of a key's server, or an empty string if no server is known for the key. As Number, it asks
// no server once the arrangement of a Cluster is known.
func (r *Client) Server(key string) string {
	if r.cluster == nil {
		return r.single.Options().Addr
	}
	client, err := r.cluster.MasterForKey(context.Background(), key)
	if err != nil {
		return ""
	}
	return client.Options().Addr
}

// Shun has calls to a hanging server of a Cluster fail at once, after the first one has waited as long
// as the client waits. It must be called before all other methods.
func (r *Client) Shun() {
	if r.cluster != nil {
		r.silence = newSilence()
	}
}

// Closed reports whether Close was called.
func (r *Client) Closed() bool { return r.closed.Load() }

// Close ends all calls to come, and the client if Open has made it. It is idempotent.
func (r *Client) Close() error {
	r.mu.Lock()
	before := r.closed.Swap(true)
	r.mu.Unlock()
	if before {
		return nil
	}
	defer r.asking.Wait()
	if r.silence != nil {
		defer r.silence.asks.Wait()
		r.silence.close()
	}
	if !r.own {
		return nil
	}
	if err := r.client.Close(); err != nil && !errors.Is(err, goredis.ErrClosed) {
		return fmt.Errorf("%s: closing the client: %w", r.names.Package, err)
	}
	return nil
}
