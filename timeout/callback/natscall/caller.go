package natscall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
)

// Kind is the kind of callback that a [Caller] makes.
const Kind = "nats"

const defaultTimeout = 10 * time.Second

// Config is the configuration of a [Caller].
type Config struct {
	// Timeout is how long a call may take if the callback has no Timeout. Zero means 10s.
	Timeout time.Duration

	// Prefix must begin each subject, such as "tasks.". Besides, the permissions of the
	// connection's user bound the subjects. Empty means no such limit.
	Prefix string
}

var _ timeout.Caller = (*Caller)(nil)

// Caller makes callbacks over NATS. Make one with [New]. Its methods may be called by several
// goroutines at the same time.
type Caller struct {
	js  jetstream.JetStream
	cfg Config
}

// New returns a Caller that publishes with js. The caller of New closes the connection of js. The
// connection must be one with nats.ReconnectBufSize(-1). Otherwise the client library would keep
// messages for the next connection, and they could arrive after their tasks were set anew. The error
// wraps timeout.ErrArgument and names the field and its value.
func New(js jetstream.JetStream, cfg Config) (*Caller, error) {
	if js == nil {
		return nil, fmt.Errorf("%w: js is nil", timeout.ErrArgument)
	}
	if size := js.Conn().Opts.ReconnectBufSize; size >= 0 {
		return nil, fmt.Errorf("%w: the connection of js has nats.ReconnectBufSize(%d), must have -1, to keep no messages while it is down", timeout.ErrArgument, size)
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("%w: Timeout %v, must not be negative", timeout.ErrArgument, cfg.Timeout)
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	return &Caller{js: js, cfg: cfg}, nil
}

// Call publishes the payload and waits until the stream has stored it: see the package. A
// callback that Check refuses is a permanent error here. While the connection is down Call
// fails at once.
func (c *Caller) Call(ctx context.Context, task timeout.Task, call timeout.Callback) error {
	if err := c.Check(call); err != nil {
		return timeout.Permanent(err)
	}
	if status := c.js.Conn().Status(); status != nats.CONNECTED {
		return fmt.Errorf("natscall: connection is %v", status)
	}
	limit := cmp.Or(call.Timeout, c.cfg.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
	_, err := c.js.PublishMsg(ctx, message(ctx, task, call), jetstream.WithRetryAttempts(0)) // the center tries again
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	err = fmt.Errorf("natscall: subject %.100s: %w", call.Target, err)
	if lasting(err) {
		return timeout.Permanent(fmt.Errorf("%w: %w", timeout.ErrArgument, err)) // the stream is not at fault
	}
	return err
}

func message(ctx context.Context, task timeout.Task, call timeout.Callback) *nats.Msg {
	msg := nats.NewMsg(call.Target)
	msg.Data = task.Payload
	for name, value := range call.Header {
		msg.Header.Set(name, value)
	}
	m := callback.New(ctx, task)
	for _, field := range m.Headers() {
		msg.Header.Set(field.Name, field.Value)
	}
	msg.Header.Set(jetstream.MsgIDHeader, m.Key)
	return msg
}

// lasting reports whether the same message would be refused again.
func lasting(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) ||
		errors.Is(err, nats.ErrBadHeaderMsg) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum)
}
