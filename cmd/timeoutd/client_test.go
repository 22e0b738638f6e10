package main

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
)

// newClient returns a client of a process.
func newClient(t *testing.T, p *process, token string) *timeoutclient.Client {
	c, err := timeoutclient.New("http://"+p.addr(t)+"/", timeoutclient.Config{Token: token})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestTheClientSetsAndFindsTasks(t *testing.T) {
	t.Parallel()
	c, ctx := newClient(t, start(t, process{args: []string{"-memory"}}), ""), t.Context()
	due := time.Date(2099, 1, 2, 3, 4, 5, 6e6, time.UTC)
	callback := &engine.Callback{Kind: "http", Target: "http://example.com/", Timeout: time.Second, Header: map[string]string{"A": "b"}, Final: []int{422}}
	trace := map[string]string{engine.Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	options := engine.Options{Retries: -1, Backoff: time.Second, BackoffMax: time.Minute, Timeout: -1, NotAfter: due.AddDate(1, 0, 0), Metadata: map[string]string{"a b": "=&%", "ü": ""}}
	for _, id := range []string{"a", "/", "x/y?z %2F", "ü#..", "..."} {
		key := engine.Key{Topic: "t", ID: id}
		found, err := c.Set(ctx, engine.Task{Topic: "t", ID: id, Due: due, Payload: []byte(`{"n":12345678901234567890}`), Callback: callback, Trace: trace, Options: options})
		require.NoError(t, err)
		require.Equal(t, engine.None, found.Was)
		require.True(t, found.Changed)
		found, err = c.Set(ctx, engine.Task{Topic: "t", ID: id, IfAbsent: true})
		require.NoError(t, err)
		require.False(t, found.Changed)
		require.Equal(t, engine.Pending, found.Was)
		task, err := c.Get(ctx, key)
		require.NoError(t, err)
		require.Equal(t, `{"n":12345678901234567890}`, string(task.Payload))
		require.Equal(t, callback, task.Callback)
		require.Equal(t, trace, task.Trace)
		require.Equal(t, options, task.Options)
		page, err := c.List(ctx, engine.Query{Topic: "t", Metadata: options.Metadata})
		require.NoError(t, err)
		require.Len(t, page.Tasks, 1)
		require.Equal(t, options, page.Tasks[0].Options)
		page, err = c.List(ctx, engine.Query{Topic: "t", Metadata: map[string]string{"ü": "no"}})
		require.NoError(t, err)
		require.Empty(t, page.Tasks)
		require.WithinDuration(t, time.Now(), task.Created, time.Minute)
		require.Equal(t, key, task.Key())
		require.True(t, due.Equal(task.Due))
		kept, err := c.Set(ctx, engine.Task{Topic: "t", ID: id, KeepDue: true, Payload: task.Payload, Callback: callback, Trace: trace, Options: options})
		require.NoError(t, err)
		require.True(t, kept.Changed)
		require.True(t, due.Equal(kept.Due))
		require.Greater(t, kept.Version, task.Version)
		found, err = c.Move(ctx, key, due.Add(time.Hour))
		require.NoError(t, err)
		require.True(t, found.Due.Equal(due.Add(time.Hour)))
		found, err = c.MoveAfter(ctx, key, time.Hour)
		require.NoError(t, err)
		require.True(t, found.Changed)
		found, err = c.Remove(ctx, key)
		require.NoError(t, err)
		require.True(t, found.Changed)
		found, err = c.MoveAfter(ctx, key, 0)
		require.NoError(t, err)
		require.False(t, found.Changed)
		_, err = c.Get(ctx, key)
		require.ErrorIs(t, err, engine.ErrNotFound)
	}

	payloads := []string{"", "{}", `{ "a": 1 }`, `"<&>"`, "null", " ", "\xff\x00", "\u2028", "\"\u2028\\u003c\\/\"", `{"b":1.0e5,"a":-0,"a":"\ud800"}`, strings.Repeat("[", 9999) + strings.Repeat("]", 9999)}
	tasks := make([]engine.Task, len(payloads))
	for i, payload := range payloads {
		tasks[i] = engine.Task{Topic: "many", ID: string(rune('a' + i)), After: time.Hour, Payload: []byte(payload)}
	}
	answers, err := c.SetAll(ctx, tasks)
	require.NoError(t, err)
	require.Len(t, answers, len(tasks))
	var keys []engine.Key
	for task, err := range c.All(ctx, engine.Query{Topic: "many", Limit: 3}) {
		require.NoError(t, err)
		require.Equal(t, len(payloads[task.ID[0]-'a']), task.PayloadBytes, "it arrives byte for byte")
		if task.PayloadBytes > 0 {
			_, err := c.Set(ctx, task)
			require.ErrorIs(t, err, engine.ErrArgument, "it would lose the payload")
		}
		keys = append(keys, task.Key())
	}
	require.Len(t, keys, len(tasks))
	for range c.All(ctx, engine.Query{Topic: "many", Limit: 3}) {
		break
	}
	for _, err := range c.All(ctx, engine.Query{Topic: "!"}) {
		require.ErrorIs(t, err, engine.ErrArgument)
	}
	moved, err := c.MoveAll(ctx, []engine.Move{{Key: keys[0], After: time.Minute}, {Key: engine.Key{Topic: "many", ID: "nobody"}, Due: due}})
	require.NoError(t, err)
	require.True(t, moved[0].Changed)
	require.False(t, moved[1].Changed)
	got, err := c.GetAll(ctx, append(keys, engine.Key{Topic: "many", ID: "nobody"}))
	require.NoError(t, err)
	require.Equal(t, engine.None, got[len(keys)].State)
	for _, task := range got[:len(keys)] {
		payload := payloads[task.ID[0]-'a']
		if payload == `{ "a": 1 }` {
			payload = `{"a":1}` // white space may be another
		}
		require.Equal(t, payload, string(task.Payload))
		one, err := c.Get(ctx, task.Key())
		require.NoError(t, err)
		require.Equal(t, task.Payload, one.Payload)
	}
	removed, err := c.RemoveAll(ctx, []engine.Removal{{Key: keys[0]}, {Key: keys[1], State: engine.Dead}})
	require.NoError(t, err)
	require.True(t, removed[0].Changed)
	require.False(t, removed[1].Changed)
	none, err := c.RemoveAll(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestTheClientTellsErrorsApart(t *testing.T) {
	t.Parallel()
	admin, read := "admin-0123456789abcdef", "read-0123456789abcdef"
	p := start(t, process{args: []string{"-memory", "-max-topics", "1"}, env: []string{"TIMEOUTD_ADMIN_TOKEN=" + admin, "TIMEOUTD_READ_TOKEN=" + read, "TIMEOUTD_FEEDBACK_KEY=whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))}})
	c, ctx := newClient(t, p, admin), t.Context()
	_, err := c.SetTopic(ctx, engine.Topic{Name: "t", Slots: 4, Retain: time.Hour})
	require.NoError(t, err)
	status := func(err error) int {
		var told *timeoutclient.Error
		require.True(t, errors.As(err, &told), "%v", err)
		require.Equal(t, told.Detail, err.Error())
		return told.Status
	}
	_, err = c.SetTopic(ctx, engine.Topic{Name: "t", Slots: 2})
	require.ErrorIs(t, err, engine.ErrConflict)
	require.Equal(t, 409, status(err))
	_, err = c.SetTopic(ctx, engine.Topic{Name: "t", Slots: 3})
	require.ErrorIs(t, err, engine.ErrArgument)
	require.ErrorContains(t, err, "slots 3 of topic t", "it is the server's text")
	_, err = c.Set(ctx, engine.Task{Topic: "u", ID: "a"})
	require.ErrorIs(t, err, engine.ErrFull)
	require.Equal(t, 507, status(err))
	answers, err := c.SetAll(ctx, []engine.Task{{Topic: "t", ID: "a", After: time.Hour}, {Topic: "u", ID: "a"}})
	require.NoError(t, err)
	require.NoError(t, answers[0].Err)
	require.ErrorIs(t, answers[1].Err, engine.ErrFull, "each task has its own")
	_, err = c.Topic(ctx, "nobody")
	require.ErrorIs(t, err, engine.ErrNotFound)
	for _, key := range []engine.Key{{Topic: "t", ID: ".."}, {Topic: "t"}, {Topic: "../..", ID: "a"}} {
		_, err = c.Remove(ctx, key)
		require.ErrorIs(t, err, engine.ErrArgument)
	}
	_, err = c.Topic(ctx, "t")
	require.NoError(t, err, "a bad id was no path to the topic")

	_, err = newClient(t, p, read).Set(ctx, engine.Task{Topic: "t", ID: "a"})
	require.Equal(t, 403, status(err))
	require.NotErrorIs(t, err, engine.ErrForged)
	_, err = newClient(t, p, "").Feedback(ctx, engine.Token{Key: engine.Key{Topic: "t", ID: "a"}, Lease: 1}.String(), timeoutclient.Outcome{})
	require.ErrorIs(t, err, engine.ErrForged)
	_, err = newClient(t, p, "").Topics(ctx)
	require.Equal(t, 401, status(err))
	c, err = timeoutclient.New("http://"+p.addr(t)+"/elsewhere", timeoutclient.Config{Token: admin})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Get(ctx, engine.Key{Topic: "t", ID: "a"})
	require.Equal(t, 404, status(err))
	require.NotErrorIs(t, err, engine.ErrNotFound, "the address is wrong, and says nothing of the task")
	_, err = timeoutclient.New("127.0.0.1:8077", timeoutclient.Config{})
	require.ErrorIs(t, err, engine.ErrArgument)
}

func TestTheClientKnowsTopicsAndTheirDead(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
			return
		}
		tokens <- r.Header.Get("Heartwheel-Token")
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(target.Close)
	p := start(t, process{args: []string{"-memory", "-callback-allow", "127.0.0.0/8"}})
	c, ctx := newClient(t, p, ""), t.Context()
	kept, err := c.SetTopic(ctx, engine.Topic{Name: "t", Retain: time.Hour, Callback: &engine.Callback{Kind: "http", Target: target.URL + "/gone"}})
	require.NoError(t, err)
	require.Equal(t, engine.DefaultSlots, kept.Slots)
	again, err := c.Topic(ctx, "t")
	require.NoError(t, err)
	require.Equal(t, kept, again)
	all, err := c.Topics(ctx)
	require.NoError(t, err)
	require.Equal(t, []engine.Topic{kept}, all)
	paused, err := c.Pause(ctx, "t")
	require.NoError(t, err)
	require.True(t, paused.Paused)
	resumed, err := c.Resume(ctx, "t")
	require.NoError(t, err)
	require.False(t, resumed.Paused)
	until := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	paused, err = c.PauseUntil(ctx, "t", until)
	require.NoError(t, err)
	require.WithinDuration(t, until, paused.PausedUntil, 0)
	paused, err = c.PauseUntil(ctx, "t", until.Add(-time.Microsecond))
	require.NoError(t, err)
	require.WithinDuration(t, until, paused.PausedUntil, 0, "a pause is never too short")
	_, err = c.PauseUntil(ctx, "t", time.Time{})
	require.ErrorIs(t, err, engine.ErrArgument)
	_, err = c.PauseUntil(ctx, "t", time.UnixMilli(1))
	require.ErrorIs(t, err, engine.ErrArgument)
	_, err = c.SetTopicIf(ctx, resumed, resumed)
	require.ErrorIs(t, err, engine.ErrChanged, "it is paused by now")
	require.ErrorIs(t, err, engine.ErrConflict)
	_, err = c.SetTopicIf(ctx, engine.Topic{}, resumed)
	require.ErrorIs(t, err, engine.ErrChanged, "it is there")
	has, err := c.Topic(ctx, "t")
	require.NoError(t, err)
	next := has
	next.Retries = 7
	changed, err := c.SetTopicIf(ctx, has, next)
	require.NoError(t, err)
	require.Equal(t, next, changed)
	_, err = c.Resume(ctx, "t")
	require.NoError(t, err)

	dead := func(n int64) {
		require.Eventually(t, func() bool {
			counts, err := c.Count(ctx, "t")
			return err == nil && counts.Dead == n
		}, eternal, 10*time.Millisecond)
	}
	for _, id := range []string{"a", "b", "c"} {
		_, err := c.Set(ctx, engine.Task{Topic: "t", ID: id})
		require.NoError(t, err)
	}
	dead(3)
	causes, other, err := c.Causes(ctx, "t")
	require.NoError(t, err)
	require.Zero(t, other)
	require.Len(t, causes, 1)
	require.EqualValues(t, 3, causes[0].Tasks)
	require.Contains(t, causes[0].Error, "410")
	ran, err := c.Executions(ctx, engine.Key{Topic: "t", ID: causes[0].Sample.ID}, 5)
	require.NoError(t, err)
	require.Equal(t, engine.Dead, ran[0].As)
	n, err := c.ReplayDead(ctx, "t", "0123456789abcdef")
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = c.ReplayDead(ctx, "t", causes[0].ID)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	dead(3)
	answers, err := c.Replay(ctx, []engine.Key{{Topic: "t", ID: "a"}, {Topic: "t", ID: "nobody"}})
	require.NoError(t, err)
	require.True(t, answers[0].Changed)
	require.False(t, answers[1].Changed)
	dead(3)
	n, err = c.DropDead(ctx, "t", "")
	require.NoError(t, err)
	require.EqualValues(t, 3, n)

	slow := &engine.Callback{Kind: "http", Target: target.URL + "/slow", Header: map[string]string{"Prefer": "respond-async"}}
	for id, outcome := range map[string]timeoutclient.Outcome{"well": {}, "badly": {Error: "no way", Permanent: true}, "later": {Error: "busy", RetryAfter: new(time.Hour)}} {
		_, err := c.Set(ctx, engine.Task{Topic: "t", ID: id, Callback: slow})
		require.NoError(t, err)
		token := <-tokens
		settled := false
		require.Eventually(t, func() bool {
			settled, err = c.Feedback(ctx, token, outcome)
			return err == nil && settled
		}, eternal, 10*time.Millisecond)
		settled, err = c.Feedback(ctx, token, outcome)
		require.NoError(t, err)
		require.False(t, settled, "an outcome counts once")
		task, err := c.Get(ctx, engine.Key{Topic: "t", ID: id})
		require.NoError(t, err)
		require.Equal(t, map[string]engine.State{"well": engine.Done, "badly": engine.Dead, "later": engine.Pending}[id], task.State)
		require.Equal(t, outcome.Error, task.Error)
	}
	stats, err := c.Stats(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, stats.Node)
	members, err := c.Members(ctx)
	require.NoError(t, err)
	require.Equal(t, stats.Node, members.Node)
	require.NoError(t, c.DropTopic(ctx, "t"))
	require.ErrorIs(t, c.DropTopic(ctx, "t"), engine.ErrNotFound)
}
