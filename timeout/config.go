package timeout

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Config is the configuration of a center. The zero value is useful.
type Config struct {
	// Node is the name of this center in leases, of at most engine.MaxID bytes of UTF-8 without control
	// characters. No two running centers may have the same: they would share the slots of one, and log
	// an error each minute. Empty means the machine's name and a random part.
	Node string

	// Topic has the settings of topics made by Center.Set and Center.Handle. Its Name is
	// ignored.
	Topic Topic

	// MaxTopics is the greatest number of topics up to which a task may make another one.
	// Without a limit a setter of tasks could make any number of topics, and each serving node
	// asks for the due tasks of each topic. Beyond it Set returns ErrFull. SetTopic and Handle
	// have no limit. Nodes that make topics at the same time can go a little beyond. Zero means
	// 256: some 50 calls of the engine per second, or a thousand with an engine that is no
	// Waker. Negative means that tasks make no topics: a missing topic is ErrNotFound.
	MaxTopics int

	// Callers make the calls of tasks and topics with a Callback, by kind. A task with a callback of its own
	// runs on the node that its slot belongs to, and waits if that node lacks the Caller. So each node with
	// a handler for such a topic needs them. A center with a handler for a topic and without Callers refuses
	// to set such tasks there.
	Callers map[string]Caller

	// Middleware wraps each attempt of this node at a task, by a handler or a callback: what it does before next is done before
	// the attempt, and what it does after next after it. It sees and may change the context, the task and the error, which can be a
	// success: see Failed. The error that it returns is that of the attempt. The first one is the outermost. It is called with
	// a handler when that is given to Center.Handle, and at each callback. A task of Topic.Pull has its attempts elsewhere.
	Middleware []func(next Handler) Handler

	// OnDead is called after a task has become Dead, on the node that has told the engine so, with the last error. It may
	// look at the task by Center.Get. A node that ends just then, or does not hear the engine's answer, makes no call, so it is
	// no replacement for a look at the dead tasks. Several goroutines may call it at the same time. A slow one holds up the end
	// of Run, Close, and calls of Feedback. It must not call Close, nor wait for the end of Run.
	OnDead func(key Key, failure string)

	// Concurrency is how many tasks of all topics together the node runs at the same time, besides the
	// limits of each topic. If more are due, Topic.Priority decides. The node leases no more ahead than can
	// begin. Zero means no such limit; more than 65536 is an error.
	Concurrency int

	// All makes the node serve all topics, even without a handler here or a callback of the
	// topic: for nodes whose tasks have callbacks. Topics with Topic.Pull are not among them.
	All bool

	// Circuit is how many calls in a row must fail before the node makes none to that target
	// for CircuitWait. Then it makes one each CircuitWait as a trial, until a call succeeds. A trial may
	// take as long as any other call. Each one that is under way doubles the wait for the next, and there are four at most. Tasks wait meanwhile,
	// and that is no attempt. See Caller.Call for what is a failure. Zero means 5 and 10s; a negative
	// Circuit means never.
	Circuit     int
	CircuitWait time.Duration

	// FeedbackKeys sign the tokens of handlers and callbacks, and Feedback refuses all others.
	// Then nobody can guess a token. A stranger with a token can settle that attempt and
	// nothing else. The first key signs. Feedback accepts all keys, so a key can be changed.
	// All nodes need the same keys, each of at least 32 random bytes. Nil means that Feedback
	// takes any token.
	FeedbackKeys [][]byte

	// Members says which nodes there are. Nil means the engine.
	Members engine.Members

	// TTL is how long a node may be silent before others get its slots; it sends a heartbeat every third of
	// TTL. Its leases go on until Topic.Lease has passed. If no heartbeat succeeds for that long, it runs
	// nothing of topics with limits for all nodes. Zero means 10s; less than 300ms is an error.
	TTL time.Duration

	// Poll is how often a center asks the engine for due tasks if it knows of none. It bounds
	// the lateness of tasks that another node sets on short notice. A Waker tells of them, and
	// is asked every 5s, or every Poll if that is longer. Zero means 250ms; less than 1ms is an
	// error.
	Poll time.Duration

	// Grace is how long Run waits for handlers at its end, before it cancels their contexts.
	// Zero means 10s; negative means not at all.
	Grace time.Duration

	// Logger gets a line when something is wrong. Nil means slog's default.
	Logger *slog.Logger
}

const (
	minTTL  = 300 * time.Millisecond
	minPoll = time.Millisecond

	minFeedbackKey = 32
)

func (cfg Config) withDefaults() Config {
	cfg.Node = cmp.Or(cfg.Node, randomName())
	cfg.MaxTopics = cmp.Or(cfg.MaxTopics, 256)
	cfg.Circuit = cmp.Or(cfg.Circuit, 5)
	cfg.CircuitWait = cmp.Or(cfg.CircuitWait, 10*time.Second)
	cfg.TTL = cmp.Or(cfg.TTL, 10*time.Second)
	cfg.Poll = cmp.Or(cfg.Poll, 250*time.Millisecond)
	cfg.Grace = cmp.Or(cfg.Grace, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return cfg
}

// randomName returns a name from the machine's, without what a name may not have.
func randomName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return printable(host) + "-" + strings.ToLower(rand.Text()[:8])
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, text)
}

// Validate returns the error of New for this config.
func (cfg Config) Validate() error { return cfg.withDefaults().check() }

// check returns an error that names the field, its value and the limit.
func (cfg Config) check() error {
	if len(cfg.Node) > engine.MaxID {
		return fmt.Errorf("%w: Node has %d bytes, must have at most %d", ErrArgument, len(cfg.Node), engine.MaxID)
	}
	if !utf8.ValidString(cfg.Node) || strings.ContainsFunc(cfg.Node, unicode.IsControl) {
		return fmt.Errorf("%w: Node %q, must be UTF-8 without control characters", ErrArgument, cfg.Node)
	}
	if cfg.TTL < minTTL {
		return fmt.Errorf("%w: TTL %v, must be at least %v", ErrArgument, cfg.TTL, minTTL)
	}
	if cfg.Poll < minPoll {
		return fmt.Errorf("%w: Poll %v, must be at least %v", ErrArgument, cfg.Poll, minPoll)
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{{"TTL", cfg.TTL}, {"Poll", cfg.Poll}, {"Grace", cfg.Grace}, {"CircuitWait", cfg.CircuitWait}} {
		if field.value > engine.MaxDuration {
			return fmt.Errorf("%w: %s %v, must be at most %v", ErrArgument, field.name, field.value, engine.MaxDuration)
		}
	}
	if cfg.Concurrency < 0 || cfg.Concurrency > engine.MaxConcurrency {
		return fmt.Errorf("%w: Concurrency %d, must be 0 to %d", ErrArgument, cfg.Concurrency, engine.MaxConcurrency)
	}
	for i, key := range cfg.FeedbackKeys {
		if len(key) < minFeedbackKey {
			return fmt.Errorf("%w: FeedbackKeys[%d] has %d bytes, must have at least %d", ErrArgument, i, len(key), minFeedbackKey)
		}
	}
	for i, wrap := range cfg.Middleware {
		if wrap == nil {
			return fmt.Errorf("%w: Middleware[%d] nil, must be a function", ErrArgument, i)
		}
	}
	if cfg.CircuitWait < 0 {
		return fmt.Errorf("%w: CircuitWait %v, must not be negative", ErrArgument, cfg.CircuitWait)
	}
	defaults := cfg.Topic
	defaults.Name = "x" // any name: each new topic has its own
	return defaults.Check()
}
