package redis_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// changed returns a record with other fields. A nil field is left out.
func changed(t testing.TB, raw string, fields map[string]any) string {
	t.Helper()
	record := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&record))
	for name, value := range fields {
		if record[name] = value; value == nil {
			delete(record, name)
		}
	}
	text, err := json.Marshal(record)
	require.NoError(t, err)
	return string(text)
}

// Two processes made a topic at the same time, when the hash was lost, and the one with the record of
// fewer copies ended before it took that back. Later the server of the hash is lost with its copies.
func TestARecordInTheFewerCopiesDoesNotWinLater(t *testing.T) {
	servers := shareCluster(t)
	for name, other := range map[string]func(raw string) string{
		"made twice": func(raw string) string {
			return changed(t, raw, map[string]any{"seq": 9e12, "rev": 9e12, "gen": 9e12, "born": 9e12})
		},
		"changed twice": func(raw string) string { // the later one by its bytes
			return `{"z":0,` + strings.Replace(raw, `"slots":4`, `"slots":4,"paused":true`, 1)[1:]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := openEngine(t, servers[0], redis.Config{})
			withTopic(t, e, engine.Topic{Slots: 4})
			setAll(t, e, batchOf("orders", "a", 20, time.Hour))
			home, client := with(t, servers, e.Prefix()+":{topics}:t")
			own := client.HGet(ctx, e.Prefix()+":{topics}:t", "orders").Val()
			left := 2
			for _, tag := range redis.CopyTags {
				name := e.Prefix() + ":{" + tag + "}:t"
				if at, copies := with(t, servers, name); at != home && left > 0 {
					require.NoError(t, copies.HSet(ctx, name, "orders", other(own)).Err())
					left--
				}
			}
			require.Zero(t, left)
			_, err := openEngine(t, servers[1], redis.Config{Prefix: e.Prefix()}).Maintain(ctx)
			require.NoError(t, err)
			for _, tag := range redis.CopyTags {
				name := e.Prefix() + ":{" + tag + "}:t"
				if at, copies := with(t, servers, name); at == home {
					require.NoError(t, copies.Del(ctx, name).Err())
				}
			}
			loseHash(t, servers, e.Prefix())
			fresh := openEngine(t, servers[2], redis.Config{Prefix: e.Prefix()})
			require.Equal(t, engine.Pending, get(t, fresh, "a-7").State)
			topics, err := fresh.Topics(ctx)
			require.NoError(t, err)
			require.False(t, topics[0].Paused)
		})
	}
}

// Nodes of an earlier version write records without a seq, and no copies.
func TestATopicOfAnEarlierVersionStaysAsThatChangesIt(t *testing.T) {
	servers := shareCluster(t)
	e := openEngine(t, servers[0], redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 1})
	hash := e.Prefix() + ":{topics}:t"
	_, client := with(t, servers, hash)
	before := changed(t, client.HGet(ctx, hash, "orders").Val(), map[string]any{"seq": nil})
	for name, copies := range copiesOf(t, servers, e.Prefix()) {
		require.NoError(t, copies.HDel(ctx, name, "orders").Err())
	}
	again := func() *redis.Engine { return openEngine(t, servers[1], redis.Config{Prefix: e.Prefix()}) }
	write := func(paused bool) {
		raw := changed(t, before, map[string]any{"topic": map[string]any{"name": "orders", "slots": 1, "paused": paused}})
		require.NoError(t, client.HSet(ctx, hash, "orders", raw).Err())
	}
	write(false)
	for _, paused := range []bool{true, false, true} {
		set(t, again(), engine.Task{ID: "1"}) // one of today's version reads it
		write(paused)
		fresh := again()
		set(t, fresh, engine.Task{ID: "2"})
		topics, err := fresh.Topics(ctx)
		require.NoError(t, err)
		require.Equal(t, paused, topics[0].Paused)
	}
}

// impatient ends a context after the first answer of a server with copies. The other servers get nothing.
type impatient struct {
	goredis.Hook
	mu   sync.Mutex
	stop context.CancelFunc // nil until armed
}

func (h *impatient) DialHook(next goredis.DialHook) goredis.DialHook          { return next }
func (h *impatient) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }

func (h *impatient) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, commands []goredis.Cmder) error {
		if !strings.Contains(fmt.Sprint(commands[0].Args()...), "{topics:15") {
			return next(ctx, commands)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		err := next(ctx, commands)
		if h.stop != nil {
			h.stop()
		}
		return err
	}
}

func TestACallThatEndsAmidTheCopiesMakesNoTopic(t *testing.T) {
	servers := shareCluster(t)
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, s.Addr)
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addresses, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	hook := &impatient{}
	client.OnNewNode(func(node *goredis.Client) { node.AddHook(hook) })
	e, err := redis.New(client, redis.Config{Prefix: prefix()})
	require.NoError(t, err)
	defer e.Close()
	withTopic(t, e, engine.Topic{Slots: 1})

	short, stop := context.WithCancel(ctx)
	defer stop()
	e.OnStep(func(step string) error {
		if step == "topic" { // the next copies are those of the new topic
			hook.mu.Lock()
			hook.stop = stop
			hook.mu.Unlock()
		}
		return nil
	})
	_, err = e.SetTopic(short, engine.Topic{Name: "bills", Slots: 1}, false)
	require.ErrorIs(t, err, context.Canceled)
	hook.stop = nil
	withTopic(t, e, engine.Topic{Name: "bills", Slots: 1})
	for name, copies := range copiesOf(t, servers, e.Prefix()) {
		require.True(t, copies.HExists(ctx, name, "bills").Val(), name)
	}
}

// The hash is lost with the copies beside it, and a process does not reach the other masters.
func TestATopicIsNotMissingIfMostCopiesAreSilent(t *testing.T) {
	t.Parallel()
	_, servers := startCluster(t, 3, 0)
	e := openEngine(t, servers[0], redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 1})
	home, client := with(t, servers, e.Prefix()+":{topics}:t")
	home.URL += "?read_timeout=1s"
	fresh := openEngine(t, home, redis.Config{Prefix: e.Prefix()})
	require.NoError(t, client.FlushAll(ctx).Err())
	for _, s := range servers {
		if s.Addr != home.Addr {
			s.Pause(t)
			defer s.Continue(t)
		}
	}
	_, err := fresh.Get(ctx, []engine.Key{key("1")})
	require.Error(t, err)
	_, err = fresh.Count(ctx, "orders")
	require.Error(t, err)
	require.NotErrorIs(t, err, engine.ErrNotFound)
}
