package natscall_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
	"github.com/heartwheel-go/heartwheel/timeout/callback/natscall"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// connect starts a server and returns a connection to it.
func connect(t *testing.T) (*testserver.Server, jetstream.JetStream) {
	s := testserver.NATS(t)
	conn, err := nats.Connect(s.URL, nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return s, js
}

func stream(t *testing.T, js jetstream.JetStream, cfg jetstream.StreamConfig) jetstream.Stream {
	st, err := js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
	return st
}

func open(t *testing.T, js jetstream.JetStream, cfg natscall.Config) *natscall.Caller {
	c, err := natscall.New(js, cfg)
	require.NoError(t, err)
	return c
}

func to(subject string) timeout.Callback {
	return timeout.Callback{Kind: natscall.Kind, Target: subject}
}

func count(t *testing.T, st jetstream.Stream) uint64 {
	info, err := st.Info(t.Context())
	require.NoError(t, err)
	return info.State.Msgs
}

var task = timeout.Task{Topic: "orders", ID: "a.b/ü", Payload: []byte("\x00payload"), Due: time.UnixMilli(1_700_000_000_123), Version: 12, Attempts: 1}

func TestAStreamGetsThePayloadAndAllThatIsPromised(t *testing.T) {
	_, js := connect(t)
	st := stream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	c := open(t, js, natscall.Config{})
	call := to("orders.due")
	call.Header = map[string]string{"X-Shop": "7"}
	task := task
	task.Trace = map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	token := timeout.Token{Key: task.Key(), Lease: 99, Part: "p"}
	require.NoError(t, c.Check(call))
	require.NoError(t, c.Call(timeout.WithToken(t.Context(), token), task, call))

	msg, err := st.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "orders.due", msg.Subject)
	require.Equal(t, task.Payload, msg.Data)
	for name, want := range map[string]string{
		"X-Shop": "7", "Nats-Msg-Id": "orders/a%2Eb%2F%C3%BC:12", "Idempotency-Key": "orders/a%2Eb%2F%C3%BC:12", "Heartwheel-Topic": "orders",
		"Heartwheel-Id": "a%2Eb%2F%C3%BC", "Heartwheel-Version": "12", "Heartwheel-Attempt": "1", "Heartwheel-Due": "1700000000123", "Heartwheel-Token": token.String(),
		"traceparent": task.Trace["traceparent"],
	} {
		require.Equal(t, []string{want}, msg.Header.Values(name), name)
	}
	m, err := callback.Parse(msg.Header.Get)
	require.NoError(t, err)
	require.Equal(t, task.ID, m.ID)
	require.Equal(t, token, m.Token)
	require.Equal(t, task.Trace, m.Trace)
}

func TestTheAttemptsOfOneSetAreThereOnce(t *testing.T) {
	_, js := connect(t)
	st := stream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	c := open(t, js, natscall.Config{})
	require.NoError(t, c.Call(t.Context(), task, to("orders.due")))
	again := task
	again.Attempts = 2
	require.NoError(t, c.Call(t.Context(), again, to("orders.due")))
	require.EqualValues(t, 1, count(t, st))
	anew := task
	anew.Version = 13
	require.NoError(t, c.Call(t.Context(), anew, to("orders.due")))
	require.EqualValues(t, 2, count(t, st))
}

func TestASubjectWithoutAStreamIsTriedAgainUntilThereIsOne(t *testing.T) {
	_, js := connect(t)
	c := open(t, js, natscall.Config{})
	before := js.Conn().Stats().OutMsgs
	err := c.Call(t.Context(), task, to("orders.due"))
	require.ErrorIs(t, err, jetstream.ErrNoStreamResponse)
	require.Equal(t, before+1, js.Conn().Stats().OutMsgs, "the center tries again, not the client")
	require.ErrorContains(t, err, "orders.due")
	require.NotErrorIs(t, err, timeout.ErrPermanent)
	st := stream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	require.NoError(t, c.Call(t.Context(), task, to("orders.due")))
	require.EqualValues(t, 1, count(t, st))
}

func TestWhatNoStreamWillEverTakeIsDeadAtOnce(t *testing.T) {
	_, js := connect(t)
	st := stream(t, js, jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"small"}, MaxMsgSize: 400})
	stream(t, js, jetstream.StreamConfig{Name: "LARGE", Subjects: []string{"large"}})
	stream(t, js, jetstream.StreamConfig{Name: "FULL", Subjects: []string{"full"}, MaxMsgs: 1, Discard: jetstream.DiscardNew})
	c := open(t, js, natscall.Config{})
	require.NoError(t, c.Call(t.Context(), task, to("small")))
	long := task
	long.ID, long.Payload = "long", make([]byte, 500)
	err := c.Call(t.Context(), long, to("small"))
	require.ErrorIs(t, err, jetstream.ErrStreamMessageExceedsMaximum)
	require.ErrorIs(t, err, timeout.ErrPermanent)
	require.ErrorIs(t, err, timeout.ErrArgument, "which says nothing of the stream")
	require.EqualValues(t, 1, count(t, st))
	long.Payload = make([]byte, engine.MaxPayload)
	err = c.Call(t.Context(), long, to("large"))
	require.ErrorIs(t, err, nats.ErrMaxPayload)
	require.ErrorIs(t, err, timeout.ErrPermanent)

	require.NoError(t, c.Call(t.Context(), task, to("full")))
	more := task
	more.ID = "more"
	err = c.Call(t.Context(), more, to("full"))
	require.ErrorContains(t, err, "maximum messages exceeded")
	require.NotErrorIs(t, err, timeout.ErrPermanent, "somebody may read it")
}

func TestWhileTheServerIsAwayCallsFailAndNothingIsKeptForLater(t *testing.T) {
	s, js := connect(t)
	c := open(t, js, natscall.Config{Timeout: 2 * time.Second})
	s.Stop(t)
	require.Eventually(t, func() bool { return js.Conn().Status() == nats.RECONNECTING }, time.Minute, time.Millisecond)
	err := c.Call(t.Context(), task, to("orders.due"))
	require.ErrorContains(t, err, "connection is RECONNECTING")
	require.NotErrorIs(t, err, timeout.ErrPermanent)
	buffered, err := js.Conn().Buffered()
	require.NoError(t, err)
	require.Zero(t, buffered)
	js.Conn().Close()
	require.ErrorContains(t, c.Call(t.Context(), task, to("orders.due")), "CLOSED")
}

// late is a JetStream of a connection that goes just before a message is published.
type late struct {
	jetstream.JetStream
	goes func()
}

func (l late) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	l.goes()
	return l.JetStream.PublishMsg(ctx, msg, opts...)
}

func TestNothingIsKeptIfTheConnectionGoesDuringACall(t *testing.T) {
	s, js := connect(t)
	c := open(t, late{js, func() {
		s.Stop(t)
		require.Eventually(t, func() bool { return js.Conn().Status() == nats.RECONNECTING }, time.Minute, time.Millisecond)
	}}, natscall.Config{})
	err := c.Call(t.Context(), task, to("orders.due"))
	require.ErrorIs(t, err, nats.ErrReconnectBufExceeded)
	require.NotErrorIs(t, err, timeout.ErrPermanent)
	buffered, err := js.Conn().Buffered()
	require.NoError(t, err)
	require.Zero(t, buffered)
}

func TestACallEndsWithItsTimeAndWithItsLease(t *testing.T) {
	_, js := connect(t)
	sub, err := js.Conn().SubscribeSync("silent") // takes the message and answers nothing
	require.NoError(t, err)
	defer sub.Unsubscribe()
	c := open(t, js, natscall.Config{})
	call := to("silent")
	call.Timeout = 30 * time.Millisecond
	err = c.Call(t.Context(), task, call)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no answer within 30ms")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	require.ErrorIs(t, c.Call(ctx, task, to("silent")), context.Canceled)
}

func TestWhatIsNoSubjectIsRefusedWhenItIsSet(t *testing.T) {
	_, js := connect(t)
	c := open(t, js, natscall.Config{})
	for _, good := range []string{"a", "orders.due", "a.b.c-d_e", "ü.ß", strings.Repeat("a", 1000)} {
		require.NoError(t, c.Check(to(good)), good)
	}
	for _, bad := range []string{
		"", ".", "a.", ".a", "a..b", "a.*", "*", "a.>", ">", "a*b", "a b", "a\tb", "a\r\nPUB b 0", "a\x00", "a\x7f", "a\xff", " a",
		"$JS.API.STREAM.DELETE.ORDERS", "$SYS.REQ.SERVER.PING", "$KV.b.k", "_INBOX", "_INBOX.x.y", strings.Repeat("a", 1001),
	} {
		require.ErrorIs(t, c.Check(to(bad)), timeout.ErrArgument, "%q", bad)
		require.ErrorIs(t, c.Call(t.Context(), task, to(bad)), timeout.ErrPermanent, "%q", bad)
	}
	for _, header := range []map[string]string{
		{"Nats-Rollup": "sub"}, {"nats-msg-id": "x"}, {"heartwheel-id": "x"}, {"Idempotency-Key": "x"}, {"A": "b\r\nC: d"}, {"A\r\n": "b"}, {"": "b"}, {"A:B": "c"},
	} {
		call := to("orders.due")
		call.Header = header
		require.ErrorIs(t, c.Check(call), timeout.ErrArgument, "%q", header)
	}
	call := to("orders.due")
	call.Method = "POST"
	require.ErrorIs(t, c.Check(call), timeout.ErrArgument)
	call = to("orders.due")
	call.Kind = "http"
	require.ErrorIs(t, c.Check(call), timeout.ErrArgument)
	call = to("a")
	call.Final = []int{422}
	require.ErrorIs(t, c.Check(call), timeout.ErrArgument)

	limited := open(t, js, natscall.Config{Prefix: "tasks."})
	require.NoError(t, limited.Check(to("tasks.a")))
	require.ErrorIs(t, limited.Check(to("orders.due")), timeout.ErrArgument)
	require.Equal(t, "orders", c.Circuit(to("orders.due.now")))
	require.Equal(t, "orders", c.Circuit(to("orders")))
}

func TestAConfigThatMakesNoSenseIsRefusedByName(t *testing.T) {
	_, err := natscall.New(nil, natscall.Config{})
	require.ErrorIs(t, err, timeout.ErrArgument)
	_, js := connect(t)
	_, err = natscall.New(js, natscall.Config{Timeout: -1})
	require.ErrorIs(t, err, timeout.ErrArgument)
	require.ErrorContains(t, err, "Timeout")
	keeping, err := nats.Connect("nats://127.0.0.1:1", nats.RetryOnFailedConnect(true))
	require.NoError(t, err)
	defer keeping.Close()
	js, err = jetstream.New(keeping)
	require.NoError(t, err)
	_, err = natscall.New(js, natscall.Config{})
	require.ErrorIs(t, err, timeout.ErrArgument)
	require.ErrorContains(t, err, "ReconnectBufSize(8388608), must have -1")
}

func FuzzSubject(f *testing.F) {
	f.Add("orders.due")
	f.Add("a..>")
	f.Add("$JS.API")
	c := &natscall.Caller{}
	f.Fuzz(func(t *testing.T, subject string) {
		if err := c.Check(to(subject)); err != nil {
			require.ErrorIs(t, err, timeout.ErrArgument)
			return
		}
		require.NotContains(t, subject, " ")
		for token := range strings.SplitSeq(subject, ".") {
			require.NotContains(t, []string{"", "*", ">"}, token, "the server would not take this as a literal subject")
		}
	})
}
