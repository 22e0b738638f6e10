package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

const (
	worker = "worker-0123456789"
	signer = "signing-key-of-thirty-two-bytes!"
)

// pulls starts an API with a topic "t" to pull from.
func pulls(t *testing.T, of timeout.Config, cfg Config) *site {
	return pullsOn(t, newEngine(t), of, cfg)
}

func pullsOn(t *testing.T, e engine.Engine, of timeout.Config, cfg Config) *site {
	s := startWith(t, e, of, cfg)
	s.run(nil)
	_, err := s.center.SetTopic(t.Context(), timeout.Topic{Name: "t", Pull: true, Retain: time.Hour})
	require.NoError(t, err)
	return s
}

func (s *site) pull(body string) []wire.Leased {
	s.t.Helper()
	return do[wire.Pulled](s, http.MethodPost, "/v1/topics/t/pull", body).Tasks
}

// hangUp pulls until ctx ends, and returns the error of the request.
func (s *site) hangUp(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/topics/t/pull", strings.NewReader(`{"wait":"20s"}`))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
		_, err = s.http.Do(r) //nolint:bodyclose // there is no answer
	}
	return err
}

func TestAProgramPullsTasksAndSettlesThem(t *testing.T) {
	s := pulls(t, timeout.Config{}, Config{})
	require.Empty(t, s.pull(`{}`))
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/1", `{"after":"300ms","payload":{"order":4711}}`)
	began := time.Now()
	task := s.pull(`{"max":10,"wait":"20s","lease":"1m"}`)[0]
	require.Less(t, time.Since(began), 15*time.Second)
	require.JSONEq(t, `{"order":4711}`, string(task.Payload))
	require.Equal(t, timeout.Running, task.State)
	require.Equal(t, wire.Duration(time.Minute), task.Lease)
	require.Empty(t, s.pull(`{"max":10}`))
	extended := do[wire.Extended](s, http.MethodPost, "/v1/extend", `{"token":"`+task.Token+`","lease":"2m"}`)
	require.Equal(t, wire.Extended{Held: true, Lease: wire.Duration(2 * time.Minute)}, extended)
	require.True(t, s.feedback(task.Token, ``))
	require.False(t, s.feedback(task.Token, ``))
	require.Equal(t, wire.Extended{}, do[wire.Extended](s, http.MethodPost, "/v1/extend", `{"token":"`+task.Token+`"}`))
	require.Equal(t, timeout.Done, get[wire.Task](s, "/v1/topics/t/tasks/1").State)

	for outcome, state := range map[string]timeout.State{
		`"error":"no","permanent":true`:     timeout.Dead,
		`"error":"no","retry_after":"1h"`:   timeout.Pending,
		`"again":"1h"`:                      timeout.Pending,
		`"returned":true`:                   timeout.Pending,
		`"error":"the topic has a backoff"`: timeout.Pending,
	} {
		s.raw(http.MethodPut, "/v1/topics/t/tasks/2", `{"after":0,"payload_base64":"AAAA"}`)
		task := s.pull(`{"wait":20000}`)[0]
		require.Equal(t, []byte{0, 0, 0}, task.PayloadBase64)
		require.True(t, s.feedback(task.Token, outcome), outcome)
		after := get[wire.Task](s, "/v1/topics/t/tasks/2")
		require.Equal(t, state, after.State, outcome)
		require.Equal(t, strings.Contains(outcome, "error"), after.Attempts == 1, outcome)
	}
	stats := get[wire.Stats](s, "/v1/stats")
	require.EqualValues(t, 6, stats.Topics[0].Here.Pulled)
	require.True(t, stats.Topics[0].Pull)
}

// feedback tells an outcome, and returns whether it counted.
func (s *site) feedback(token, outcome string) bool {
	s.t.Helper()
	if outcome != "" {
		outcome = "," + outcome
	}
	return do[wire.Settled](s, http.MethodPost, "/v1/feedback", `{"token":"`+token+`"`+outcome+`}`).Settled
}

func TestPullRefusesBadNumbersAndNames(t *testing.T) {
	s := pulls(t, timeout.Config{}, Config{})
	s.ask(http.StatusOK, http.MethodPut, "/v1/topics/called", `{}`)
	for body, detail := range map[string]string{
		`{"max":101}`:                  "max 101 of a pull, must be 0 to 100",
		`{"max":1e9}`:                  "field \"max\"",
		`{"max":-1}`:                   "max -1 of a pull",
		`{"wait":"-1s"}`:               "wait -1s of a pull, must not be negative",
		`{"wait":"21s"}`:               "wait 21s, must be at most 20s",
		`{"wait":9223372036854775807}`: "must be at most",
		`{"wait":9223372036854}`:       "must be at most 20s",
		`{"lease":"1ms"}`:              "lease 1ms of topic t, must be at least 100ms",
		`{"lease":"-1s"}`:              "lease -1s of topic t, must be at least 100ms",
		`{"lease":"900000h"}`:          "lease 900000h0m0s of topic t, must be at most",
		`{"n":3}`:                      "unknown field",
		`null`:                         "must be a JSON object",
		`{"max":1}{"max":1}`:           "something after",
		`{"max":"1"}`:                  "must be a whole number",
		"{\"topic\":\"u\"}":            "unknown field",
		`{"wait":"` + strings.Repeat("9", 1<<20) + `s"}`: "must be",
	} {
		a := s.raw(http.MethodPost, "/v1/topics/t/pull", body)
		require.Equal(t, http.StatusBadRequest, a.status, body[:min(len(body), 99)])
		require.Contains(t, a.problem(t).Detail, detail)
	}
	for path, status := range map[string]int{
		"/v1/topics/called/pull": http.StatusConflict, "/v1/topics/nobody/pull": http.StatusNotFound,
		"/v1/topics/%00/pull": http.StatusBadRequest, "/v1/topics/t/pull?wait=20s": http.StatusBadRequest,
	} {
		require.Equal(t, status, s.raw(http.MethodPost, path, `{}`).status, path)
	}
	require.Equal(t, http.StatusMethodNotAllowed, s.raw(http.MethodGet, "/v1/topics/t/pull", "").status)
	require.Equal(t, http.StatusBadRequest, s.raw(http.MethodPut, "/v1/topics/t", `{"pull":true,"callback":{"kind":"http","target":"http://a"}}`).status)
	for _, token := range []string{"", "%", "AAAA", base64.RawURLEncoding.EncodeToString([]byte("t\n0\n1@x\na")), base64.RawURLEncoding.EncodeToString([]byte("t\n0\n1@-5\na"))} {
		require.Equal(t, http.StatusBadRequest, s.raw(http.MethodPost, "/v1/extend", `{"token":"`+token+`"}`).status, token)
	}
	unknown := base64.RawURLEncoding.EncodeToString([]byte("t\n0\n1@9999\na"))
	for _, outcome := range []string{`"again":"1s","returned":true`, `"again":"1s","error":"x"`, `"returned":true,"retry_after":"1s"`, `"again":"-1s"`, `"again":"900000h"`, `"returned":true,"permanent":true`} {
		require.Equal(t, http.StatusBadRequest, s.raw(http.MethodPost, "/v1/feedback", `{"token":"`+unknown+`",`+outcome+`}`).status, outcome)
	}
	require.Equal(t, http.StatusBadRequest, s.raw(http.MethodPost, "/v1/extend", `{"token":"`+unknown+`","lease":"-1s"}`).status)
	require.False(t, do[wire.Extended](s, http.MethodPost, "/v1/extend", `{"token":"`+unknown+`"}`).Held)
}

// A work token is for its topics, and for nothing but work. Without signatures it alone says on which
// tokens of leases its holder may act.
func TestAWorkTokenIsForItsTopicAlone(t *testing.T) {
	s := pulls(t, timeout.Config{}, Config{Tokens: []Token{{Secret: worker, Scope: Work, Topic: "t"}, {Secret: worker, Scope: Work, Topic: "v"}, {reader, Read, ""}, {writer, Write, ""}, {master, Admin, ""}}})
	for _, topic := range []string{"t", "u"} {
		_, err := s.center.SetTopic(t.Context(), timeout.Topic{Name: topic, Pull: true})
		require.NoError(t, err)
		_, err = s.center.Set(t.Context(), timeout.Task{Topic: topic, ID: "1"})
		require.NoError(t, err)
	}
	ask := func(token, path, body string) answered {
		return s.raw(http.MethodPost, path, body, "Authorization", "Bearer "+token)
	}
	var foreign wire.Pulled
	read(t, ask(writer, "/v1/topics/u/pull", `{"wait":"20s"}`).body, &foreign)
	for _, secret := range []string{worker, reader} {
		for path, body := range map[string]string{
			"/v1/topics/u/pull": `{}`, "/v1/topics/nobody/pull": `{}`,
			"/v1/extend": `{"token":"` + foreign.Tasks[0].Token + `"}`, "/v1/feedback": `{"token":"` + foreign.Tasks[0].Token + `"}`,
			"/v1/tasks/set": `{"tasks":[]}`, "/v1/tasks/replay": `{"keys":[]}`,
		} {
			a := ask(secret, path, body)
			require.Equal(t, http.StatusForbidden, a.status, path)
		}
	}
	require.Contains(t, ask(worker, "/v1/topics/u/pull", `{}`).body, `for work on the topics [\"t\" \"v\"], must be for \"u\"`)
	for _, path := range []string{"/v1/topics", "/v1/topics/t", "/v1/topics/t/tasks/1", "/v1/stats", "/metrics"} {
		a := s.raw(http.MethodGet, path, "", "Authorization", "Bearer "+worker)
		require.Equal(t, http.StatusForbidden, a.status, path)
		require.Contains(t, a.body, "the token has scope work, must have read")
	}
	var own wire.Pulled
	a := ask(worker, "/v1/topics/t/pull", `{"wait":"20s"}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	read(t, a.body, &own)
	require.Contains(t, ask(worker, "/v1/extend", `{"token":"`+own.Tasks[0].Token+`"}`).body, `"held":true`)
	require.Contains(t, ask(worker, "/v1/feedback", `{"token":"`+own.Tasks[0].Token+`"}`).body, `"settled":true`)
	_, err := New(s.center, Config{Tokens: []Token{{Secret: worker, Scope: Work}}})
	require.ErrorIs(t, err, timeout.ErrArgument)
}

// With signatures the token of a lease settles and extends that lease, and a forged one nothing.
func TestASignedLeaseTokenNeedsNoOther(t *testing.T) {
	s := pulls(t, timeout.Config{FeedbackKeys: [][]byte{[]byte(signer)}}, Config{SignedFeedback: true, Tokens: []Token{{Secret: worker, Scope: Work, Topic: "t"}, {master, Admin, ""}}})
	for _, id := range []string{"1", "2"} {
		_, err := s.center.Set(t.Context(), timeout.Task{Topic: "t", ID: id})
		require.NoError(t, err)
	}
	var pulled wire.Pulled
	for len(pulled.Tasks) < 2 {
		var more wire.Pulled
		read(t, s.raw(http.MethodPost, "/v1/topics/t/pull", `{"max":2,"wait":"20s"}`, "Authorization", "Bearer "+worker).body, &more)
		pulled.Tasks = append(pulled.Tasks, more.Tasks...)
	}
	token := pulled.Tasks[0].Token
	raw, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err)
	forge := func(old, anew string) string {
		forged := strings.Replace(string(raw), old, anew, 1)
		require.NotEqual(t, string(raw), forged)
		return base64.RawURLEncoding.EncodeToString([]byte(forged))
	}
	other, err := timeout.ParseToken(pulled.Tasks[1].Token)
	require.NoError(t, err)
	mine, err := timeout.ParseToken(token)
	require.NoError(t, err)
	swapped := mine
	swapped.Key, swapped.Lease = other.Key, other.Lease
	for name, forged := range map[string]string{
		"a byte":          token[:len(token)-4] + "AAAA",
		"another topic":   forge("t\n", "u\n"),
		"a later begin":   forge("@", "@9"),
		"no begin":        forge(fmt.Sprintf("@%d", mine.Begun), ""),
		"another's proof": swapped.String(),
		"no proof":        forge(mine.Proof, ""),
		"another lease":   forge(fmt.Sprint(mine.Lease), fmt.Sprint(mine.Lease+1)),
		"a leading zero":  forge(fmt.Sprint("\n", mine.Lease), fmt.Sprint("\n+", mine.Lease, "1")),
	} {
		for _, path := range []string{"/v1/extend", "/v1/feedback"} {
			a := s.raw(http.MethodPost, path, `{"token":"`+forged+`"}`, "Authorization", "Bearer "+master)
			require.Contains(t, []int{http.StatusForbidden, http.StatusBadRequest}, a.status, name)
		}
	}
	require.Equal(t, http.StatusUnauthorized, s.raw(http.MethodPost, "/v1/topics/t/pull", `{}`, "Authorization", "Bearer "+token).status)
	require.Equal(t, http.StatusRequestEntityTooLarge, s.raw(http.MethodPost, "/v1/extend", `{"token":"`+strings.Repeat("A", 1<<17)+`"}`).status)
	require.True(t, do[wire.Extended](s, http.MethodPost, "/v1/extend", `{"token":"`+token+`"}`).Held)
	require.True(t, do[wire.Settled](s, http.MethodPost, "/v1/feedback", `{"token":"`+token+`"}`).Settled)
}

// Waiting pulls are bounded. Pulls without wait, and all other calls, are answered all the same.
func TestWaitingPullsAreBounded(t *testing.T) {
	s := pulls(t, timeout.Config{}, Config{})
	require.True(t, s.handler.polls.TryAcquire(maxPolls-2))
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() { require.ErrorIs(t, s.hangUp(ctx), context.Canceled) })
	}
	require.Eventually(t, func() bool {
		if s.handler.polls.TryAcquire(1) {
			s.handler.polls.Release(1)
			return false
		}
		return true
	}, eternal, time.Millisecond)
	a := s.raw(http.MethodPost, "/v1/topics/t/pull", `{"wait":"20s"}`)
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Contains(t, a.problem(t).Detail, "must be at most 512 together")
	require.Empty(t, s.pull(`{}`))
	cancel()
	waiting.Wait()
	require.Eventually(t, func() bool { return s.handler.polls.TryAcquire(2) }, eternal, time.Millisecond, "those that have gone hold no place")
}

// A full house of answers hands the tasks back, and no attempt is counted.
func TestPullsBeyondTheRoomForAnswersHandTheirTasksBack(t *testing.T) {
	s := pulls(t, timeout.Config{}, Config{})
	s.handler.patience = time.Millisecond
	require.True(t, s.handler.pulled.TryAcquire(maxPulled))
	_, err := s.center.Set(t.Context(), timeout.Task{Topic: "t", ID: "1", Payload: make([]byte, smallBody+1)})
	require.NoError(t, err)
	a := s.raw(http.MethodPost, "/v1/topics/t/pull", `{"wait":"20s"}`)
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	task := get[wire.Task](s, "/v1/topics/t/tasks/1")
	require.Equal(t, timeout.Pending, task.State)
	require.Zero(t, task.Attempts)
	s.handler.pulled.Release(maxPulled)
	s.handler.patience = eternal
	require.Len(t, s.pull(`{"wait":"20s"}`), 1)
}

// settling is an engine that counts the calls with outcomes.
type settling struct {
	engine.Engine
	calls atomic.Int32
}

func (e *settling) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if len(ask.Settle) > 0 {
		e.calls.Add(1)
	}
	return e.Engine.Lease(ctx, ask)
}

func TestManyTasksAreHandedBackByOneCall(t *testing.T) {
	e := &settling{Engine: newEngine(t)}
	s := pullsOn(t, e, timeout.Config{}, Config{})
	s.handler.patience = time.Millisecond
	require.True(t, s.handler.pulled.TryAcquire(maxPulled))
	tasks := make([]timeout.Task, engine.MaxPull)
	for i := range tasks {
		tasks[i] = timeout.Task{Topic: "t", ID: fmt.Sprint(i), Payload: make([]byte, smallBody)}
	}
	_, err := s.center.SetAll(t.Context(), tasks)
	require.NoError(t, err)
	a := s.raw(http.MethodPost, "/v1/topics/t/pull", `{"max":100,"wait":"20s"}`)
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	require.Contains(t, a.body, fmt.Sprint("payloads of ", engine.MaxPull*smallBody, " bytes"), "that was all of them")
	require.EqualValues(t, 1, e.calls.Load())
	counts, err := s.center.Count(t.Context(), "t")
	require.NoError(t, err)
	require.EqualValues(t, engine.MaxPull, counts.Pending)
}

// The caller hangs up while its answer waits for room.
func TestTasksOfACallerThatHangsUpAreHandedBack(t *testing.T) {
	s := pulls(t, timeout.Config{}, Config{})
	s.handler.patience = eternal
	require.True(t, s.handler.pulled.TryAcquire(maxPulled))
	_, err := s.center.Set(t.Context(), timeout.Task{Topic: "t", ID: "1", Payload: make([]byte, smallBody+1)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.hangUp(ctx) }()
	is := func(state timeout.State) func() bool {
		return func() bool { return get[wire.Task](s, "/v1/topics/t/tasks/1").State == state }
	}
	require.Eventually(t, is(timeout.Running), eternal, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, is(timeout.Pending), eternal, time.Millisecond)
	require.Zero(t, get[wire.Task](s, "/v1/topics/t/tasks/1").Attempts)
}

// A proxy may have taken the length out of the head.
func TestAWaitingPullTakesTheRoomOfItsBodyOnly(t *testing.T) {
	s := pulls(t, timeout.Config{}, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	pulled := make(chan string)
	for range bodiesAtOnce {
		go func() {
			body := struct{ io.Reader }{strings.NewReader(`{"wait":"20s"}`)} // of unknown length
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/topics/t/pull", body)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, r)
			pulled <- w.Body.String()
		}()
	}
	eventually(t, func() bool {
		if s.handler.polls.TryAcquire(maxPolls - bodiesAtOnce + 1) {
			s.handler.polls.Release(maxPolls - bodiesAtOnce + 1)
			return false
		}
		return true
	}, "all wait")
	require.Equal(t, http.StatusCreated, s.raw(http.MethodPut, "/v1/topics/t/tasks/a", `{"after":0,"payload":"`+strings.Repeat("x", 5<<10)+`"}`).status)
	require.Contains(t, <-pulled, "xxx", "they wait")
	cancel()
	for range bodiesAtOnce - 1 {
		<-pulled
	}
}

func TestALeaseThatIsHalfOverIsHandedBack(t *testing.T) {
	s := pulls(t, timeout.Config{}, Config{})
	for _, one := range []struct{ id, lease string }{{"short", "1500ms"}, {"long", "1m"}} {
		id, lease := one.id, one.lease
		s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/"+id, `{"payload":"`+strings.Repeat("x", 8<<10)+`"}`)
		require.NoError(t, s.handler.pulled.Acquire(t.Context(), maxPulled)) // by readers that take their time
		time.AfterFunc(time.Second, func() { s.handler.pulled.Release(maxPulled) })
		leased := s.pull(`{"lease":"` + lease + `"}`)
		if id == "short" {
			require.Empty(t, leased)
			task := get[wire.Task](s, "/v1/topics/t/tasks/short")
			require.Equal(t, timeout.Pending, task.State, "it is handed back")
			require.Zero(t, task.Attempts)
			s.ask(http.StatusOK, http.MethodDelete, "/v1/topics/t/tasks/short", "")
			continue
		}
		require.Len(t, leased, 1)
		require.LessOrEqual(t, time.Duration(leased[0].Lease), 59500*time.Millisecond, "what is left of it")
		require.GreaterOrEqual(t, time.Duration(leased[0].Lease), 30*time.Second)
	}
}

func TestALeaseThatIsNearlyOverIsTooLate(t *testing.T) {
	for _, one := range []struct {
		lease, waited time.Duration
		late          bool
	}{
		{time.Minute, 0, false},
		{time.Minute, 30 * time.Second, false},
		{time.Minute, 31 * time.Second, true},
		{100 * time.Millisecond, 0, false},
		{50 * time.Millisecond, 0, false}, // the topic's Timeout
		{150 * time.Millisecond, 50 * time.Millisecond, false},
		{150 * time.Millisecond, 60 * time.Millisecond, true},
	} {
		require.Equal(t, one.late, tooLate(wire.Duration(one.lease), wire.Duration(one.waited)), "%+v", one)
	}
}
