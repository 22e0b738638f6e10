package postgres_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// cutConn is a connection that is lost when it sends the text while next is set: the network drops
// the text and all later bytes, and tells neither end.
type cutConn struct {
	net.Conn
	on   []byte       // the text
	next *atomic.Bool // set: cut the next connection to send the text
	cut  atomic.Bool
}

func (c *cutConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, c.on) && c.next.CompareAndSwap(true, false) {
		c.cut.Store(true)
	}
	if c.cut.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func TestAMessageThatIsNeverAnsweredHoldsUpNoOther(t *testing.T) {
	schema := newSchema()
	var next atomic.Bool
	conns := make(chan *cutConn, 100)
	cfg, err := pgxpool.ParseConfig(sharedURL(t))
	require.NoError(t, err)
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &cutConn{Conn: conn, on: []byte("hw_" + schema), next: &next}
		conns <- c
		return c, nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer func() {
		for len(conns) > 0 { // the pool would wait long for a lost one
			if c := <-conns; c.cut.Load() {
				_ = c.Close()
			}
		}
		pool.Close()
	}()
	setter, err := postgres.New(t.Context(), pool, postgres.Config{Schema: schema})
	require.NoError(t, err)
	defer func() { require.NoError(t, setter.Close()) }()
	_, err = setter.SetTopic(t.Context(), engine.Topic{Name: "orders"}, true)
	require.NoError(t, err)
	waiter := open(t, schema)
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan string, 1000)
	done := make(chan error, 1)
	go func() { done <- waiter.Wake(ctx, func(topic string) { woken <- topic }, func(engine.Key) {}) }()
	hears := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			set(t, setter, engine.Task{ID: "1", After: time.Second})
			select {
			case <-woken:
				return true
			case <-time.After(50 * time.Millisecond):
				return false
			}
		}, 20*time.Second, time.Millisecond)
	}
	hears()
	next.Store(true)
	require.Eventually(t, func() bool {
		set(t, setter, engine.Task{ID: "1", After: time.Second})
		return !next.Load()
	}, time.Minute, time.Millisecond, "one is lost")
	for len(woken) > 0 {
		<-woken
	}
	hears()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}
