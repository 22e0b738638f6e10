package timeout

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

// Config is what a centre can be told. The zero value is useful.
type Config struct {
	// Node is the name under which this centre leases tasks. No two that run may have the
	// same. Empty means the machine's name and a random part.
	Node string

	// Topic has the settings of topics that are made by being used: by Center.Set and
	// Center.Handle. Its Name is not looked at.
	Topic Topic

	// MaxTopics is how many topics there may be for a task to make another one, so that who
	// may only set tasks can't make any number of them: each is asked for what is due by every
	// node that serves it. More are ErrFull; SetTopic and Handle are not bounded, and nodes that
	// make some at the same time can go a little beyond. Zero means 256: some 50 questions in a
	// second, or a thousand with an engine that is no Waker. Negative means that tasks make
	// none: one of a topic that is not there is ErrNotFound.
	MaxTopics int

	// Callers make the calls of tasks and topics with a Callback, by kind.
	Callers map[string]Caller

	// All has the node serve all topics that there are, and not only those with a handler
	// here or with a callback of their own: for nodes whose tasks have callbacks.
	All bool

	// Circuit is how many calls in a row must fail before none is made to that target for
	// CircuitWait: tasks are then put off, and that counts as no attempt. Zero means 5 and
	// 10s; a negative Circuit means never.
	Circuit     int
	CircuitWait time.Duration

	// Members says which nodes there are. Nil means the engine.
	Members Members

	// TTL is how long a node may be silent before its slots are given to others; it shows
	// itself in a third of that. What it has leased waits for Topic.Lease. Zero means 10s;
	// less than 300ms is an error.
	TTL time.Duration

	// Poll is how often the engine is asked for what is due where nothing is known of. That
	// bounds the lateness of tasks set by another node on short notice. A Waker tells of them,
	// and is asked every 5s, or every Poll if that is longer. Zero means
	// 250ms; less than 1ms is an error.
	Poll time.Duration

	// Grace is how long Run waits for handlers when it shall end, before it cancels their
	// contexts. Zero means 10s; negative means not at all.
	Grace time.Duration

	// Logger gets a line where something is wrong. Nil means slog's default.
	Logger *slog.Logger
}

const (
	minTTL  = 300 * time.Millisecond
	minPoll = time.Millisecond
)

func (cfg Config) withDefaults() Config {
	cfg.Node = or(cfg.Node, randomName())
	cfg.MaxTopics = or(cfg.MaxTopics, 256)
	cfg.Circuit = or(cfg.Circuit, 5)
	cfg.CircuitWait = or(cfg.CircuitWait, 10*time.Second)
	cfg.TTL = or(cfg.TTL, 10*time.Second)
	cfg.Poll = or(cfg.Poll, 250*time.Millisecond)
	cfg.Grace = or(cfg.Grace, 10*time.Second)
	cfg.Logger = or(cfg.Logger, slog.Default())
	return cfg
}

func randomName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return host + "-" + strings.ToLower(rand.Text()[:8])
}

// check returns an error that names the field, its value and the limit.
func (cfg Config) check() error {
	if len(cfg.Node) > MaxID {
		return fmt.Errorf("%w: Node has %d bytes, must have at most %d", ErrArgument, len(cfg.Node), MaxID)
	}
	if cfg.TTL < minTTL {
		return fmt.Errorf("%w: TTL %v, must be at least %v", ErrArgument, cfg.TTL, minTTL)
	}
	if cfg.Poll < minPoll {
		return fmt.Errorf("%w: Poll %v, must be at least %v", ErrArgument, cfg.Poll, minPoll)
	}
	if cfg.CircuitWait < 0 {
		return fmt.Errorf("%w: CircuitWait %v, must not be negative", ErrArgument, cfg.CircuitWait)
	}
	defaults := cfg.Topic
	defaults.Name = "x" // any name: each topic that is made has its own
	return defaults.Check()
}
