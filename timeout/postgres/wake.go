package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	soon          = 5 * time.Second       // a node finds tasks due later by polling
	rest          = 10 * time.Millisecond // between two messages of one engine
	spreadTimeout = time.Second           // for a message: without it, nodes find the task by polling
	reconnect     = 100 * time.Millisecond
	maxReconnect  = 5 * time.Second
	listenCheck   = 30 * time.Second // silence before a ping, and the timeout of the ping
)

// soonIn returns the topics of n tasks with a time that others are told of, by this process's clock. A topic
// is there once for tasks in a row.
func soonIn(n int, task func(int) (topic string, due time.Time, after time.Duration)) (topics []string) {
	last := ""
	for i := range n {
		topic, due, after := task(i)
		if !due.IsZero() {
			after = time.Until(due)
		}
		if after <= soon && topic != last {
			topics, last = append(topics, topic), topic
		}
	}
	return topics
}

func soonSet(tasks []engine.Task) []string {
	return soonIn(len(tasks), func(i int) (string, time.Time, time.Duration) {
		if tasks[i].KeepDue { // it may be due
			return tasks[i].Topic, time.Time{}, 0
		}
		return tasks[i].Topic, tasks[i].Due, tasks[i].After
	})
}

func soonMoved(moves []engine.Move) []string {
	return soonIn(len(moves), func(i int) (string, time.Time, time.Duration) { return moves[i].Topic, moves[i].Due, moves[i].After })
}

// payloads returns the messages about ended leases: a topic, a space, and an ID if it is about one task. A topic has no
// space, so programs of an earlier version take each for one of a topic that they don't have.
func payloads(ended []engine.Key) []string {
	all := make([]string, len(ended))
	for i, key := range ended {
		all[i] = key.Topic + " " + key.ID
	}
	return all
}

// notifier collects messages to other engines: topics with a task due soon, and what payloads returns. The messages are
// apart from the transactions that set tasks: the server commits notifying transactions one after
// the other.
type notifier struct {
	mu       sync.Mutex
	messages map[string]struct{}
	wakeup   chan struct{}
}

func (h *notifier) tell(messages ...string) {
	if len(messages) == 0 {
		return
	}
	h.mu.Lock()
	for _, message := range messages {
		h.messages[message] = struct{}{}
	}
	h.mu.Unlock()
	select {
	case h.wakeup <- struct{}{}:
	default:
	}
}

// take returns the collected messages, and forgets them.
func (h *notifier) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	messages := slices.Collect(maps.Keys(h.messages))
	clear(h.messages)
	return messages
}

// spread sends the notifier's messages until ctx ends. A message only saves time: one that fails is not
// sent again.
func (e *Engine) spread(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.notifier.wakeup:
		}
		within, cancel := context.WithTimeout(ctx, spreadTimeout)
		_ = e.with(within, func(conn *pgxpool.Conn) error {
			_, err := conn.Exec(within, e.sql.Notify, e.channel(), e.notifier.take())
			return err
		})
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
	}
}

func (e *Engine) channel() string { return "hw_" + e.schema }

// queueNotice adds messages to the caller's transaction. The server sends them at the commit.
func (e *Engine) queueNotice(batch *pgx.Batch, messages []string) {
	if len(messages) > 0 {
		batch.Queue(e.sql.Notify, e.channel(), messages)
	}
}

// tellEnded tells other engines of ended leases, in the caller's transaction by another round trip.
func (e *Engine) tellEnded(ctx context.Context, exec executor, ended []engine.Key) error {
	if len(ended) == 0 {
		return nil
	}
	if exec.foreign {
		return exec.send(ctx, "telling of ended leases", func(batch *pgx.Batch) { e.queueNotice(batch, payloads(ended)) })
	}
	e.notifier.tell(payloads(ended)...)
	return nil
}

// Wake implements engine.Waker. It listens on a connection of its own. If it loses that, it connects
// again after 100ms, and doubles this wait up to 5s while it fails. It hears of tasks due within five
// seconds.
func (e *Engine) Wake(ctx context.Context, wake func(topic string), ended func(key engine.Key)) error {
	e.mu.Lock()
	if e.closed.Load() {
		e.mu.Unlock()
		return engine.ErrClosed
	}
	e.parts.Add(1)
	e.mu.Unlock()
	defer e.parts.Done()
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(e.life, func() { cancel(engine.ErrClosed) })
	defer stop()

	for wait := reconnect; ; wait = min(2*wait, maxReconnect) {
		if conn, err := e.connect(within); err == nil {
			wake("") // earlier messages are lost
			listenTo(within, conn, wake, ended)
			closeConn(conn)
			wait = reconnect
		}
		select {
		case <-within.Done():
			return context.Cause(within)
		case <-time.After(wait):
		}
	}
}

// connect returns a connection that listens.
func (e *Engine) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, e.listen.Copy())
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+quote(e.channel())); err != nil {
		closeConn(conn)
		return nil, err
	}
	return conn, nil
}

// listenTo calls wake and ended until the connection is lost.
func listenTo(ctx context.Context, conn *pgx.Conn, wake func(topic string), ended func(key engine.Key)) {
	for {
		waiting, cancel := context.WithTimeout(ctx, listenCheck)
		message, err := conn.WaitForNotification(waiting)
		silent := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			if topic, id, found := strings.Cut(message.Payload, " "); found {
				ended(engine.Key{Topic: topic, ID: id})
			} else {
				wake(topic)
			}
		case !silent || conn.IsClosed() || ping(ctx, conn) != nil:
			return
		}
	}
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, listenCheck)
	defer cancel()
	return conn.Ping(ctx)
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
