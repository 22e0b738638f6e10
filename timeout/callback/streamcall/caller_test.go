package streamcall_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback/streamcall"
)

func open(t *testing.T, client redis.UniversalClient, cfg streamcall.Config) *streamcall.Caller {
	c, err := streamcall.New(client, cfg)
	require.NoError(t, err)
	return c
}

func to(stream string) timeout.Callback {
	return timeout.Callback{Kind: streamcall.Kind, Target: stream}
}

var task = timeout.Task{Topic: "orders", ID: "a.b/ü", Payload: []byte("\x00pay\r\nload\xff"), Due: time.UnixMilli(1_700_000_000_123), Version: 12, Attempts: 2}

func TestAStreamGetsThePayloadAndAllThatIsPromised(t *testing.T) {
	client := connect(t, serve(t))
	c := open(t, client, streamcall.Config{})
	call := to("events:due now")
	call.Header = map[string]string{"shop": "7", "empty": "", "line": "a\r\nb", "traceparent": "the task's wins"}
	task := task
	task.Trace = map[string]string{"tracestate": "a=1", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	token := timeout.Token{Key: task.Key(), Lease: 99, Part: "p"}
	require.NoError(t, c.Check(call))
	require.NoError(t, c.Call(timeout.WithToken(t.Context(), token), task, call))
	require.NoError(t, c.Call(t.Context(), timeout.Task{Topic: "orders", ID: "2"}, call))

	// A consumer group reads it, as its users do.
	require.NoError(t, client.XGroupCreate(t.Context(), call.Target, "g", "0").Err())
	read, err := client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{call.Target, ">"}}).Result()
	require.NoError(t, err)
	require.Len(t, read[0].Messages, 2)
	require.Equal(t, map[string]any{
		"key": "orders/a%2Eb%2F%C3%BC:12", "topic": "orders", "id": "a.b/ü", "version": "12", "attempt": "2", "due": "1700000000123",
		"token": token.String(), "payload": string(task.Payload), "shop": "7", "empty": "", "line": "a\r\nb",
		"traceparent": task.Trace["traceparent"], "tracestate": "a=1",
	}, read[0].Messages[0].Values)
	require.NotContains(t, read[0].Messages[1].Values, "token")
	require.Equal(t, "", read[0].Messages[1].Values["payload"])
}

func TestAStreamKeepsAboutAsManyEntriesAsItIsTold(t *testing.T) {
	client := connect(t, serve(t))
	c := open(t, client, streamcall.Config{MaxLen: 200})
	limited := to("limited")
	limited.Header = map[string]string{"maxlen": "50"}
	for range 1000 {
		require.NoError(t, c.Call(t.Context(), task, limited))
		require.NoError(t, c.Call(t.Context(), task, to("default")))
	}
	for stream, least := range map[string]int64{"limited": 50, "default": 200} {
		n, err := client.XLen(t.Context(), stream).Result()
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, least)
		require.Less(t, n, int64(500), "nodes of a stream have 100 entries")
	}
	entries, err := client.XRevRangeN(t.Context(), "limited", "+", "-", 1).Result()
	require.NoError(t, err)
	require.NotContains(t, entries[0].Values, "maxlen")
}

func TestAKeyOfSomethingElseIsDeadAtOnceAndAFullServerIsNot(t *testing.T) {
	client := connect(t, serve(t, "--maxmemory", "64mb"))
	require.NoError(t, client.Set(t.Context(), "text", "x", 0).Err())
	c := open(t, client, streamcall.Config{})
	err := c.Call(t.Context(), task, to("text"))
	require.ErrorContains(t, err, "WRONGTYPE")
	require.ErrorContains(t, err, `stream "text"`)
	require.ErrorIs(t, err, timeout.ErrPermanent)

	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	err = c.Call(t.Context(), task, to("events"))
	require.ErrorContains(t, err, "OOM")
	require.NotErrorIs(t, err, timeout.ErrPermanent)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.NoError(t, c.Call(t.Context(), task, to("events")))
}

func TestInAClusterTheEntryIsOnItsNode(t *testing.T) {
	addr := serve(t, "--cluster-enabled", "yes")
	node := connect(t, addr)
	require.NoError(t, node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	require.Eventually(t, func() bool {
		return strings.Contains(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	}, time.Minute, 5*time.Millisecond)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	t.Cleanup(func() { cluster.Close() })
	c := open(t, cluster, streamcall.Config{})
	require.NoError(t, c.Call(t.Context(), task, to("events")))
	require.EqualValues(t, 1, cluster.XLen(t.Context(), "events").Val())
}

// lossy stands in front of a server and hangs up in place of giving the answer to an XADD. It
// counts those.
func lossy(t *testing.T, server string) (addr string, lost *atomic.Int32) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	lost = new(atomic.Int32)
	done := make(chan struct{})
	t.Cleanup(func() { listener.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			pass(conn, server, lost)
		}
	}()
	return listener.Addr().String(), lost
}

func pass(conn net.Conn, server string, lost *atomic.Int32) {
	defer conn.Close()
	behind, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer behind.Close()
	go io.Copy(conn, behind)
	from := bufio.NewReader(conn)
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			return
		}
		if strings.TrimSpace(line) != "xadd" {
			io.WriteString(behind, line)
			continue
		}
		lost.Add(1)
		conn.(*net.TCPConn).CloseWrite() // the answer is never seen, what came is passed on
		io.WriteString(behind, line)
		conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		io.Copy(behind, from)
		return
	}
}

func TestAnAttemptAddsOneEntryEvenWhereItsAnswerIsLost(t *testing.T) {
	addr := serve(t)
	front, lost := lossy(t, addr)
	client := connect(t, front)
	require.Positive(t, client.Options().MaxRetries, "the client repeats what it may")
	c := open(t, client, streamcall.Config{})
	err := c.Call(t.Context(), task, to("events"))
	require.Error(t, err)
	require.NotErrorIs(t, err, timeout.ErrPermanent)
	require.EqualValues(t, 1, lost.Load())
	direct := connect(t, addr)
	require.Eventually(t, func() bool { return direct.XLen(t.Context(), "events").Val() == 1 }, 20*time.Second, time.Millisecond,
		"it may come after the client has given up")
}

func TestACallEndsWithItsTimeAndWithItsLease(t *testing.T) {
	addr := serve(t)
	client, other := connect(t, addr), connect(t, addr)
	c := open(t, client, streamcall.Config{})
	require.NoError(t, c.Call(t.Context(), task, to("events")))
	require.NoError(t, other.Do(t.Context(), "client", "pause", time.Hour.Milliseconds()).Err())
	call := to("events")
	call.Timeout = 30 * time.Millisecond
	err := c.Call(t.Context(), task, call)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, timeout.ErrPermanent)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Call(ctx, task, to("events")), context.Canceled)
	require.NoError(t, client.Close())
	require.ErrorIs(t, c.Call(t.Context(), task, to("events")), redis.ErrClosed)
}

func TestWhatIsNoStreamIsRefusedWhenItIsSet(t *testing.T) {
	client := connect(t, "127.0.0.1:1")
	c := open(t, client, streamcall.Config{})
	for _, good := range []string{"a", "events:due", "{tag}x", "ü ß", "*", strings.Repeat("a", 1000)} {
		require.NoError(t, c.Check(to(good)), good)
	}
	for _, bad := range []string{"", "a\nb", "a\x00", "a\x7f", "\xff", strings.Repeat("a", 1001)} {
		require.ErrorIs(t, c.Check(to(bad)), timeout.ErrArgument, "%q", bad)
		require.ErrorIs(t, c.Call(t.Context(), task, to(bad)), timeout.ErrPermanent, "%q", bad)
	}
	for _, header := range []map[string]string{
		{"key": "x"},
		{"payload": "x"},
		{"token": "x"},
		{"": "x"},
		{"a\n": "x"},
		{"\xff": "x"},
		{"MAXLEN": "0"},
		{"MAXLEN": "-1"},
		{"maxlen": "x"},
		{"maxlen": ""},
		{"MaxLen": "~ 5"},
		{"maxlen": "9223372036854775808"},
		{"maxlen": "1", "MAXLEN": "2"},
	} {
		call := to("events")
		call.Header = header
		require.ErrorIs(t, c.Check(call), timeout.ErrArgument, "%q", header)
	}
	call := to("events")
	call.Method = "XADD"
	require.ErrorIs(t, c.Check(call), timeout.ErrArgument)
	call = to("events")
	call.Final = []int{422}
	require.ErrorIs(t, c.Check(call), timeout.ErrArgument)
	call = to("events")
	call.Kind = "nats"
	require.ErrorIs(t, c.Check(call), timeout.ErrArgument)

	limited := open(t, client, streamcall.Config{Prefix: "events:"})
	require.NoError(t, limited.Check(to("events:a")))
	for _, bad := range []string{"events:", "event", "xevents:a", "EVENTS:a"} {
		require.ErrorIs(t, limited.Check(to(bad)), timeout.ErrArgument, bad)
	}
	require.Equal(t, "events:a", limited.Circuit(to("events:a")))
}

func TestAConfigThatMakesNoSenseIsRefusedByName(t *testing.T) {
	_, err := streamcall.New(nil, streamcall.Config{})
	require.ErrorIs(t, err, timeout.ErrArgument)
	for name, cfg := range map[string]streamcall.Config{"Timeout": {Timeout: -1}, "MaxLen": {MaxLen: -1}} {
		_, err = streamcall.New(connect(t, "127.0.0.1:1"), cfg)
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.ErrorContains(t, err, name)
	}
}

func FuzzStream(f *testing.F) {
	f.Add("events", "maxlen", "5")
	f.Add("a\n", "key", "")
	c := &streamcall.Caller{}
	f.Fuzz(func(t *testing.T, stream, name, value string) {
		call := to(stream)
		call.Header = map[string]string{name: value}
		if err := c.Check(call); err != nil {
			require.ErrorIs(t, err, timeout.ErrArgument)
			return
		}
		require.NotContains(t, stream, "\n")
		require.NotEmpty(t, stream)
	})
}
