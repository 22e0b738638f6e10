package streamcall

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Kind is the kind of a [Caller]'s callbacks.
const Kind = "redis"

const defaultTimeout = 10 * time.Second

// Config is the configuration of a [Caller].
type Config struct {
	// Timeout is how long a call may take if the callback has no Timeout. The client's
	// ReadTimeout bounds it, too, and alone if its ContextTimeoutEnabled is false. Zero means
	// 10s.
	Timeout time.Duration

	// Prefix must begin each key, such as "events:". Without it a setter of tasks can add to
	// any stream of the server, as far as the client may, and make keys of any name. Set it if
	// the server keeps other data, such as the tasks themselves. Empty means no such limit.
	Prefix string

	// MaxLen is how many entries a stream keeps, roughly, if the callback has no header MAXLEN.
	// Zero means all.
	MaxLen int64
}

var _ timeout.Caller = (*Caller)(nil)

// Caller makes callbacks into Redis streams. Make one with [New]. Its methods may be called
// by several goroutines at the same time.
type Caller struct {
	client redis.UniversalClient
	cfg    Config
}

// New returns a Caller that adds entries with client. The caller of New closes the client. The
// error wraps timeout.ErrArgument and names the field and its value.
func New(client redis.UniversalClient, cfg Config) (*Caller, error) {
	switch {
	case client == nil:
		return nil, fmt.Errorf("%w: client is nil", timeout.ErrArgument)
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("%w: Timeout %v, must not be negative", timeout.ErrArgument, cfg.Timeout)
	case cfg.MaxLen < 0:
		return nil, fmt.Errorf("%w: MaxLen %d, must not be negative", timeout.ErrArgument, cfg.MaxLen)
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	return &Caller{client: client, cfg: cfg}, nil
}

// Call adds the entry: see the package. A callback refused by Check is a permanent error here,
// and so is a key of another type than a stream.
func (c *Caller) Call(ctx context.Context, task timeout.Task, call timeout.Callback) error {
	if err := c.Check(call); err != nil {
		return timeout.Permanent(err)
	}
	limit := cmp.Or(call.Timeout, c.cfg.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
	err := c.client.Process(ctx, once{redis.NewStringCmd(ctx, c.command(ctx, task, call)...)})
	if err == nil {
		return nil
	}
	permanent := redis.HasErrorPrefix(err, "WRONGTYPE")
	if deadline, _ := ctx.Deadline(); !time.Now().Before(deadline) {
		<-ctx.Done() // the socket has the same deadline and can end a moment earlier
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	err = fmt.Errorf("streamcall: stream %.100q: %w", call.Target, err)
	if permanent {
		return timeout.Permanent(err)
	}
	return err
}

// once is a command without retries: a retry after a lost answer would add a second entry.
type once struct{ *redis.StringCmd }

func (once) NoRetry() bool { return true }

// command returns the XADD of a task.
func (c *Caller) command(ctx context.Context, task timeout.Task, call timeout.Callback) []any {
	args := []any{"xadd", call.Target}
	if most := c.maxLen(call); most > 0 {
		args = append(args, "maxlen", "~", most)
	}
	m := callback.New(ctx, task)
	args = append(
		args, "*", "key", m.Key, "topic", m.Topic, "id", m.ID, "version", m.Version,
		"attempt", m.Attempt, "due", engine.Millis(m.Due),
	)
	if m.Token != (timeout.Token{}) {
		args = append(args, "token", m.Token.String())
	}
	args = append(args, "payload", task.Payload)
	for _, name := range slices.Sorted(maps.Keys(m.Trace)) {
		args = append(args, name, m.Trace[name])
	}
	for _, name := range slices.Sorted(maps.Keys(call.Header)) {
		if !strings.EqualFold(name, maxLenHeader) && m.Trace[name] == "" {
			args = append(args, name, call.Header[name])
		}
	}
	return args
}

// maxLen returns how many entries the stream keeps, or zero. Check has validated the header.
func (c *Caller) maxLen(call timeout.Callback) int64 {
	for name, value := range call.Header {
		if strings.EqualFold(name, maxLenHeader) {
			most, _ := strconv.ParseInt(value, 10, 64)
			return most
		}
	}
	return c.cfg.MaxLen
}
