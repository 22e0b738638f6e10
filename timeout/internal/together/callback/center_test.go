package callback_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
	"github.com/heartwheel-go/heartwheel/timeout/callback/natscall"
	"github.com/heartwheel-go/heartwheel/timeout/callback/streamcall"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// run returns a running center with a topic that keeps its done tasks.
func run(t *testing.T, callers map[string]timeout.Caller) *timeout.Center {
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { engine.Close() })
	center, err := timeout.New(engine, timeout.Config{Callers: callers, All: true, Circuit: 20, Poll: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, err = center.SetTopic(t.Context(), timeout.Topic{Name: "orders", Retain: time.Hour, Backoff: 10 * time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- center.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran; center.Close() })
	return center
}

func set(t *testing.T, center *timeout.Center, id string, call timeout.Callback) timeout.Answer {
	answer, err := center.Set(t.Context(), timeout.Task{Topic: "orders", ID: id, Payload: []byte(`{"n":1}`), Callback: &call})
	require.NoError(t, err)
	return answer
}

// ends waits until a task has ended and returns it.
func ends(t *testing.T, center *timeout.Center, id string) (task timeout.Task) {
	require.Eventually(t, func() bool {
		var err error
		task, err = center.Get(t.Context(), timeout.Key{Topic: "orders", ID: id})
		require.NoError(t, err)
		return task.State.Ended()
	}, time.Minute, 5*time.Millisecond)
	return task
}

func httpCaller(t *testing.T) *httpcall.Caller {
	calls, err := httpcall.New(httpcall.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	require.NoError(t, err)
	t.Cleanup(func() { calls.Close() })
	return calls
}

func natsCaller(t *testing.T) (*natscall.Caller, jetstream.Stream) {
	conn, err := nats.Connect(testserver.NATS(t).URL, nats.ReconnectBufSize(-1))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	require.NoError(t, err)
	calls, err := natscall.New(js, natscall.Config{})
	require.NoError(t, err)
	return calls, stream
}

func redisCaller(t *testing.T) (*streamcall.Caller, *redis.Client) {
	client := redis.NewClient(&redis.Options{Addr: testserver.Redis(t).Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	calls, err := streamcall.New(client, streamcall.Config{})
	require.NoError(t, err)
	return calls, client
}

func TestACenterCallsTargetsOfAllKinds(t *testing.T) {
	got := make(chan http.Header, 1)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer target.Close()
	overNATS, stream := natsCaller(t)
	overRedis, client := redisCaller(t)
	center := run(t, map[string]timeout.Caller{"http": httpCaller(t), "nats": overNATS, "redis": overRedis})

	want := map[string]timeout.Answer{
		"http":  set(t, center, "http", timeout.Callback{Kind: "http", Target: target.URL}),
		"nats":  set(t, center, "nats", timeout.Callback{Kind: "nats", Target: "orders.due"}),
		"redis": set(t, center, "redis", timeout.Callback{Kind: "redis", Target: "events"}),
	}
	check := func(kind string, m callback.Message, err error) {
		require.NoError(t, err)
		require.Equal(t, "orders", m.Topic)
		require.Equal(t, kind, m.ID)
		require.Equal(t, want[kind].Version, m.Version)
		require.Equal(t, want[kind].Due.UnixMilli(), m.Due.UnixMilli())
		require.Equal(t, 1, m.Attempt)
		require.Equal(t, "orders/"+kind+":"+strconv.FormatInt(m.Version, 10), m.Key)
		require.Equal(t, timeout.Key{Topic: "orders", ID: kind}, m.Token.Key)
		require.Equal(t, timeout.Done, ends(t, center, kind).State)
	}
	m, err := callback.Parse((<-got).Get)
	check("http", m, err)
	ends(t, center, "nats")
	msg, err := stream.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1}`, string(msg.Data))
	m, err = callback.Parse(msg.Header.Get)
	check("nats", m, err)
	ends(t, center, "redis")
	entries, err := client.XRange(t.Context(), "events", "-", "+").Result()
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, `{"n":1}`, entries[0].Values["payload"])
	m, err = fromEntry(entries[0].Values)
	check("redis", m, err)
}

// fromEntry reads an entry of a stream as a consumer would.
func fromEntry(values map[string]any) (callback.Message, error) {
	header := http.Header{}
	for field, name := range map[string]string{
		"key": callback.HeaderKey, "topic": callback.HeaderTopic, "version": callback.HeaderVersion,
		"attempt": callback.HeaderAttempt, "due": callback.HeaderDue, "token": callback.HeaderToken,
	} {
		header.Set(name, values[field].(string))
	}
	header.Set(callback.HeaderID, callback.Escape(values["id"].(string)))
	return callback.Parse(header.Get)
}

func TestTheAnswerOfATargetDecidesInTheCenter(t *testing.T) {
	var mu sync.Mutex
	seen := map[string][]callback.Message{}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, err := callback.Parse(r.Header.Get)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		seen[m.ID] = append(seen[m.ID], m)
		switch {
		case m.ID == "gone":
			w.WriteHeader(http.StatusGone)
		case m.ID == "refused":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case m.ID == "rollout" && m.Attempt < 4: // a new version or a new token: a later attempt succeeds
			w.WriteHeader([]int{http.StatusNotFound, http.StatusUnauthorized, http.StatusConflict}[m.Attempt-1])
		case m.ID == "later":
			w.WriteHeader(http.StatusAccepted)
		case m.ID == "flaky" && m.Attempt < 3:
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer target.Close()
	center := run(t, map[string]timeout.Caller{"http": httpCaller(t)})
	call := timeout.Callback{Kind: "http", Target: target.URL}
	set(t, center, "gone", call)
	set(t, center, "flaky", call)
	set(t, center, "rollout", call)
	refused := call
	refused.Final = []int{http.StatusUnprocessableEntity}
	set(t, center, "refused", refused)
	async := call
	async.Header = map[string]string{"Prefer": "respond-async"}
	set(t, center, "later", async)

	dead := ends(t, center, "gone")
	require.Equal(t, timeout.Dead, dead.State)
	require.Equal(t, 1, dead.Attempts)
	require.Contains(t, dead.Error, "answer 410 Gone")
	dead = ends(t, center, "refused")
	require.Equal(t, timeout.Dead, dead.State)
	require.Equal(t, 1, dead.Attempts)
	require.Equal(t, timeout.Done, ends(t, center, "flaky").State)
	rollout := ends(t, center, "rollout")
	require.Equal(t, timeout.Done, rollout.State)
	require.Equal(t, 4, rollout.Attempts)

	calls := func(id string) []callback.Message {
		mu.Lock()
		defer mu.Unlock()
		return append([]callback.Message(nil), seen[id]...)
	}
	flaky := calls("flaky")
	require.Len(t, flaky, 3)
	require.Equal(t, flaky[0].Key, flaky[2].Key)
	require.NotEqual(t, flaky[0].Token, flaky[2].Token)

	require.Eventually(t, func() bool { return len(calls("later")) == 1 }, time.Minute, 5*time.Millisecond)
	task, err := center.Get(t.Context(), timeout.Key{Topic: "orders", ID: "later"})
	require.NoError(t, err)
	require.Equal(t, timeout.Running, task.State)
	ok, err := center.Feedback(t.Context(), calls("later")[0].Token, nil)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, timeout.Done, ends(t, center, "later").State)
	require.Len(t, calls("later"), 1)
}
