package callback_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func header(m callback.Message) http.Header {
	h := http.Header{}
	for _, field := range m.Headers() {
		h.Add(field.Name, field.Value)
	}
	return h
}

func TestWhoIsCalledReadsWhatTheTaskIs(t *testing.T) {
	for _, id := range []string{"4711", "{user 7}/ü", "a.b:c/d", "%41", " x ", `"\`, strings.Repeat("é", 127)} {
		task := timeout.Task{Topic: "orders.unpaid", ID: id, Version: 12, Attempts: 3, Due: time.UnixMilli(1_700_000_000_123)}
		token := timeout.Token{Key: task.Key(), Lease: 99, Part: "p"}
		message := callback.New(timeout.WithToken(context.Background(), token), task)
		h := header(message)
		for name, values := range h {
			require.Len(t, values, 1, name)
			require.NotContains(t, values[0], " ")
			require.NotContains(t, values[0], "\n")
		}
		back, err := callback.Parse(h.Get)
		require.NoError(t, err)
		require.Equal(t, message, back)
		require.Equal(t, token, back.Token)
		require.Equal(t, 3, back.Attempt)
	}
}

func TestATraceIsInTheHeadersAsW3CHasIt(t *testing.T) {
	trace := map[string]string{
		engine.Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		engine.Tracestate:  "congo=t61rcWkgMzE", engine.Baggage: "user=7",
	}
	h := header(callback.New(context.Background(), timeout.Task{Topic: "orders", ID: "1", Trace: trace}))
	for name, value := range trace {
		require.Equal(t, []string{value}, h.Values(name))
	}
	back, err := callback.Parse(h.Get)
	require.NoError(t, err)
	require.Equal(t, trace, back.Trace)

	h.Set(engine.Traceparent, "00-changed")
	back, err = callback.Parse(h.Get)
	require.NoError(t, err)
	require.Nil(t, back.Trace)
}

func TestTheKeyOfOneSetIsThatOfAllItsAttemptsAndOfNothingElse(t *testing.T) {
	task := timeout.Task{Topic: "orders", ID: "4711", Version: 12, Attempts: 1}
	require.Equal(t, "orders/4711:12", callback.Key(task))
	again := task
	again.Attempts, again.Payload, again.Error = 2, []byte("x"), "boom"
	require.Equal(t, callback.Key(task), callback.Key(again))
	seen := map[string]timeout.Task{}
	for _, other := range []timeout.Task{
		{Topic: "orders", ID: "4711", Version: 13},
		{Topic: "orders", ID: "4711:12", Version: 1},
		{Topic: "orders", ID: "4711%3A12", Version: 1},
		{Topic: "orders:4711", ID: "12", Version: 1},
		{Topic: "orders", ID: "4711/12", Version: 1},
		{Topic: "orders.x", ID: "1.2", Version: 1},
		task,
	} {
		key := callback.Key(other)
		require.NotContains(t, seen, key)
		require.NotContains(t, key, ".", "what is signed ends there")
		seen[key] = other
	}
}

func TestWithoutALeaseThereIsNoToken(t *testing.T) {
	h := header(callback.New(context.Background(), timeout.Task{Topic: "orders", ID: "1"}))
	require.Empty(t, h.Values(callback.HeaderToken))
	back, err := callback.Parse(h.Get)
	require.NoError(t, err)
	require.Zero(t, back.Token)
}

func TestHeadersThatNobodyHasWrittenAreRefusedByName(t *testing.T) {
	good := header(callback.New(context.Background(), timeout.Task{Topic: "orders", ID: "1"}))
	for name, value := range map[string]string{
		callback.HeaderTopic:   "",
		callback.HeaderID:      "%zz",
		callback.HeaderVersion: "x",
		callback.HeaderAttempt: "99999999999",
		callback.HeaderDue:     "1e3",
		callback.HeaderToken:   "!",
		callback.HeaderKey:     "orders/2:0",
	} {
		bad := good.Clone()
		bad.Set(name, value)
		_, err := callback.Parse(bad.Get)
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.ErrorContains(t, err, name)
	}
}

const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~"

func FuzzEscape(f *testing.F) {
	f.Add("4711")
	f.Add("a.b/c:\xff%41 ü\n")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	f.Add(string(all))
	f.Fuzz(func(t *testing.T, id string) {
		text := callback.Escape(id)
		var bytes strings.Builder // a key must stay as it is for ever
		for i := range len(id) {
			if strings.IndexByte(plain, id[i]) >= 0 {
				bytes.WriteByte(id[i])
			} else {
				fmt.Fprintf(&bytes, "%%%02X", id[i])
			}
		}
		require.Equal(t, bytes.String(), text)
		require.False(t, strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("./:", r) }))
		back, err := url.PathUnescape(text)
		require.NoError(t, err)
		require.Equal(t, id, back)
	})
}
