package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// What is kept of the dead is a topic's to say, and what is deleted is counted.
func TestDeadTasksAreDeletedAndCounted(t *testing.T) {
	s := start(t, Config{})
	kept := do[wire.TopicChange](s, http.MethodPut, "/v1/topics/t", `{"retries":-1,"retain_dead":"1h","max_dead":2}`)
	require.Equal(t, time.Hour, time.Duration(kept.RetainDead))
	require.Equal(t, 2, kept.MaxDead)
	require.Equal(t, kept.Topic, get[wire.TopicCounts](s, "/v1/topics/t").Topic)

	s.run(map[string]timeout.Handler{"t": func(context.Context, timeout.Task) error { return errBroken }})
	do[wire.Answers](s, http.MethodPost, "/v1/tasks/set", `{"tasks":[{"topic":"t","id":"a"},{"topic":"t","id":"b"},{"topic":"t","id":"c"},{"topic":"t","id":"d"},{"topic":"t","id":"e"}]}`)
	eventually(t, func() bool {
		here := get[wire.Stats](s, "/v1/stats").Topics[0].Here
		return here != nil && here.Purged == 3
	}, "three are deleted")
	require.EqualValues(t, 2, get[wire.TopicCounts](s, "/v1/topics/t").Counts.Dead)
	require.Contains(t, s.ask(http.StatusOK, http.MethodGet, "/metrics", ""), "\nheartwheel_timeout_purged_dead_total{topic=\"t\"} 3\n")

	do[wire.TopicChange](s, http.MethodPut, "/v1/topics/t", `{"retries":-1,"retain_dead":1}`)
	eventually(t, func() bool { return get[wire.TopicCounts](s, "/v1/topics/t").Counts.Dead == 0 }, "the others are too old")
	require.Equal(t, -1, do[wire.TopicChange](s, http.MethodPut, "/v1/topics/t", `{"max_dead":-1}`).MaxDead)
}

// Dead tasks are grouped by error and target, and a group is replayed or dropped alone.
func TestDeadTasksByTheirCause(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusGone
		if strings.HasPrefix(r.URL.Path, "/b") {
			status = http.StatusConflict
		}
		http.Error(w, "no order "+r.URL.Query().Get("n")+" at "+time.Now().Format(time.RFC3339Nano), status)
	}))
	t.Cleanup(target.Close)
	calls, err := httpcall.New(httpcall.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, calls.Close()) })
	s := startWith(t, newEngine(t), timeout.Config{Callers: map[string]timeout.Caller{"http": calls}, All: true, Circuit: -1}, Config{})
	s.run(nil)
	do[wire.TopicChange](s, http.MethodPut, "/v1/topics/t", `{"retries":-1,"callback":{"kind":"http","target":"`+target.URL+`/topic"}}`)
	for i := range 10 {
		for path, n := range map[string]int{"a/1000": 6, "b": 3} {
			if i < n {
				call := fmt.Sprintf(`{"callback":{"kind":"http","target":"%s/%s%d?n=%d"}}`, target.URL, path, i, 1000+i)
				s.ask(http.StatusCreated, http.MethodPut, fmt.Sprintf("/v1/topics/t/tasks/%c%d", path[0], i), call)
			}
		}
	}
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/c", `{}`)
	dead := func() int64 { return get[wire.TopicCounts](s, "/v1/topics/t").Counts.Dead }
	eventually(t, func() bool { return dead() == 10 }, "all are dead")

	told := get[wire.Causes](s, "/v1/topics/t/dead/causes")
	require.Empty(t, told.Next)
	require.Zero(t, told.Other)
	groups := make(map[string]wire.Cause)
	for _, group := range told.Causes {
		groups[fmt.Sprint(group.Tasks, " ", strings.TrimPrefix(group.Target, "http "+target.URL))] = group
	}
	require.Len(t, groups, 5, "%v", told) // one of 6, one of 1, and b0 to b2: few digits are a part of the name
	first := told.Causes[0]
	require.Equal(t, "http "+target.URL+"/a/…", first.Target)
	require.EqualValues(t, 6, first.Tasks)
	require.Equal(t, `httpcall: POST http://…: answer 410 Gone: "no order … at …\n"`, first.Error)
	require.Regexp(t, `^a[0-5]$`, first.Sample.ID)
	require.Equal(t, get[wire.Task](s, "/v1/topics/t/tasks/"+first.Sample.ID).Error, first.Sample.Error)
	require.Equal(t, get[wire.Task](s, "/v1/topics/t/tasks/"+first.Sample.ID).Until, first.Newest)
	require.Contains(t, groups, "1 /topic", "the topic's callback")
	require.Contains(t, groups["1 /b1"].Error, "409 Conflict")

	path := "/v1/topics/t/dead/"
	require.Equal(t, wire.Cleared{Changed: 6}, do[wire.Cleared](s, http.MethodPost, path+"replay?cause="+first.ID, ""))
	eventually(t, func() bool { return dead() == 10 }, "they are dead again")
	require.Equal(t, wire.Cleared{}, do[wire.Cleared](s, http.MethodPost, path+"drop?cause=nobody", ""))
	require.Equal(t, wire.Cleared{Changed: 6}, do[wire.Cleared](s, http.MethodPost, path+"drop?cause="+first.ID, ""))
	require.EqualValues(t, 4, dead(), "those of other causes stay")

	for _, cursor := range []string{"x", "7", "-1.", "99999999999999999999.", "1.nonsense"} {
		a := s.raw(http.MethodGet, path+"causes?cursor="+url.QueryEscape(cursor), "")
		require.Equal(t, http.StatusBadRequest, a.status, cursor)
	}
	require.Equal(t, http.StatusNotFound, s.raw(http.MethodGet, "/v1/topics/nobody/dead/causes", "").status)
	require.Equal(t, http.StatusBadRequest, s.raw(http.MethodPost, path+"replay?caus="+first.ID, "").status, "not all of them")
}

// A request with a cursor goes on with as many tasks as were left.
func TestDeadTasksGoOnWithACursor(t *testing.T) {
	s := start(t, Config{})
	s.run(map[string]timeout.Handler{"t": func(_ context.Context, task timeout.Task) error { return fmt.Errorf("no %s", task.ID) }})
	var tasks []string
	for i := range 1100 {
		tasks = append(tasks, fmt.Sprintf(`{"topic":"t","id":"%c%c%c"}`, 'a'+i%26, 'a'+i/26%26, 'a'+i/676))
	}
	do[wire.Answers](s, http.MethodPost, "/v1/tasks/set", `{"tasks":[`+strings.Join(tasks[:550], ",")+`]}`)
	do[wire.Answers](s, http.MethodPost, "/v1/tasks/set", `{"tasks":[`+strings.Join(tasks[550:], ",")+`]}`)
	eventually(t, func() bool { return get[wire.TopicCounts](s, "/v1/topics/t").Counts.Dead == 1100 }, "all are dead")
	// causes returns the first answer, with the tasks of those after it among the other ones: on a busy machine one
	// answer has not all.
	causes := func(cursor string) wire.Causes {
		const path = "/v1/topics/t/dead/causes?cursor="
		first := get[wire.Causes](s, path+url.QueryEscape(cursor))
		for next := first.Next; next != ""; {
			more := get[wire.Causes](s, path+url.QueryEscape(next))
			first.Other, next = first.Other+more.Other+int64(len(more.Causes)), more.Next
		}
		return first
	}
	told := causes("")
	require.Len(t, told.Causes, maxCauses)
	require.EqualValues(t, 1100-maxCauses, told.Other)

	page, err := s.center.List(t.Context(), timeout.Query{Topic: "t", State: timeout.Dead, Limit: 500})
	require.NoError(t, err)
	left := 1100 - len(page.Tasks)
	rest := causes(fmt.Sprintf("%d.%s", time.Now().UnixMilli(), page.Next))
	require.EqualValues(t, left, rest.Other+int64(len(rest.Causes)))
	require.Equal(t, wire.Causes{Causes: []wire.Cause{}}, causes("0."+page.Next))
}

// weighing is an engine that counts the bytes of the payloads in its lists.
type weighing struct {
	engine.Engine
	bytes atomic.Int64
}

func (e *weighing) List(ctx context.Context, query engine.Query) (engine.Page, error) {
	page, err := e.Engine.List(ctx, query)
	for _, task := range page.Tasks {
		e.bytes.Add(int64(len(task.Payload)))
	}
	return page, err
}

func TestDeadTasksAreGroupedReplayedAndDroppedWithoutReadingTheirPayloads(t *testing.T) {
	e := &weighing{Engine: newEngine(t)}
	s := startOn(t, e, Config{})
	calls := make(chan string, 4)
	s.run(map[string]timeout.Handler{"t": func(_ context.Context, task timeout.Task) error {
		calls <- string(task.Payload)
		return errBroken
	}})
	dead := func() bool { return get[wire.TopicCounts](s, "/v1/topics/t").Counts.Dead == 2 }
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/a", `{"payload":"of a"}`)
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/b", `{"payload":"of b"}`)
	eventually(t, dead, "they are dead")

	causes := get[wire.Causes](s, "/v1/topics/t/dead/causes").Causes
	require.Len(t, causes, 1)
	require.Equal(t, wire.Cleared{Changed: 2}, do[wire.Cleared](s, http.MethodPost, "/v1/topics/t/dead/replay?cause="+causes[0].ID, ""))
	eventually(t, dead, "they are dead again")
	want := []string{`"of a"`, `"of b"`, `"of a"`, `"of b"`}
	require.ElementsMatch(t, want, []string{<-calls, <-calls, <-calls, <-calls}, "the replayed ones, too")
	listed := get[wire.Tasks](s, "/v1/topics/t/tasks?state=dead").Tasks
	require.Len(t, listed, 2)
	require.Equal(t, 6, listed[0].PayloadBytes)
	require.Equal(t, wire.Cleared{Changed: 2}, do[wire.Cleared](s, http.MethodPost, "/v1/topics/t/dead/drop", ""))
	require.Zero(t, e.bytes.Load())
}

func TestErrorsInGeneral(t *testing.T) {
	for text, want := range map[string]string{
		`answer 404 Not Found: "no user 4711"`:                                                   `answer 404 Not Found: "no user …"`,
		"Post \"http://127.0.0.1:9000/x\": dial tcp 127.0.0.1:9000: connect: connection refused": "Post \"http://…/x\": dial tcp …: connect: connection refused",
		"request 3f2b1c9e-0a1b-4c2d-8e3f-001122334455 at 2026-01-02T15:04:05.6Z failed":          "request … at … failed",
		"context deadline exceeded":                                                              "context deadline exceeded", "": "", "über 12, status 404 of o2:3": "über …, status 404 of …",
	} {
		require.Equal(t, want, general(text, 1))
	}
	topic := timeout.Topic{Callback: &timeout.Callback{Kind: "nats", Target: "events.order"}}
	why := func(task timeout.Task, topic timeout.Topic) []string {
		cause := causeOf(task, topic)
		return []string{cause.Error, cause.Target}
	}
	require.Equal(t, []string{"timeout: handler panicked: no", "nats events.order"}, why(timeout.Task{Error: "timeout: handler panicked: no\ngoroutine 1"}, topic))
	require.Equal(t, []string{"no", "http https://h:12345/…"}, why(timeout.Task{Error: "no", Callback: &timeout.Callback{Kind: "http", Target: "https://h:12345/12345?key=secret"}}, topic))
	require.Equal(t, []string{"", ""}, why(timeout.Task{}, timeout.Topic{}))
}

// silent does not answer about single tasks, such as those in a part that is away.
type silent struct{ engine.Engine }

var errAway = errors.New("shard 1 does not answer")

func (silent) Replay(_ context.Context, keys []timeout.Key) ([]timeout.Answer, error) {
	return slices.Repeat([]timeout.Answer{{Err: errAway}}, len(keys)), nil
}

func (silent) Remove(_ context.Context, removals []timeout.Removal) ([]timeout.Answer, error) {
	return slices.Repeat([]timeout.Answer{{Err: errAway}}, len(removals)), nil
}

// halfSilent does not answer about task c.
type halfSilent struct{ engine.Engine }

func (e halfSilent) Replay(ctx context.Context, keys []timeout.Key) ([]timeout.Answer, error) {
	answers, err := e.Engine.Replay(ctx, slices.DeleteFunc(slices.Clone(keys), func(key timeout.Key) bool { return key.ID == "c" }))
	if i := slices.IndexFunc(keys, func(key timeout.Key) bool { return key.ID == "c" }); i >= 0 && err == nil {
		answers = slices.Insert(answers, i, timeout.Answer{Err: errAway})
	}
	return answers, err
}

// The other tasks run again, and the error says how many.
func TestClearingTellsOfTheTasksBeforeAFailure(t *testing.T) {
	s := startOn(t, halfSilent{newEngine(t)}, Config{})
	s.run(map[string]timeout.Handler{"t": func(context.Context, timeout.Task) error { return errBroken }})
	for _, id := range []string{"a", "b", "c"} {
		s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/"+id, `{}`)
	}
	eventually(t, func() bool { return get[wire.TopicCounts](s, "/v1/topics/t").Counts.Dead == 3 }, "all are dead")
	require.Contains(t, s.ask(http.StatusBadGateway, http.MethodPost, "/v1/topics/t/dead/replay", ""), "after 2 tasks of this request: the engine has failed")
}

// Tasks that could not be replayed or dropped are no success, whether the engine refused the whole
// call or some of its tasks.
func TestClearingTellsOfTasksWithoutAnAnswer(t *testing.T) {
	s := startOn(t, silent{newEngine(t)}, Config{})
	s.run(map[string]timeout.Handler{"t": func(context.Context, timeout.Task) error { return errBroken }})
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/a", `{}`)
	eventually(t, func() bool { return get[wire.TopicCounts](s, "/v1/topics/t").Counts.Dead == 1 }, "it is dead")
	for _, verb := range []string{"replay", "drop"} {
		require.Contains(t, s.ask(http.StatusBadGateway, http.MethodPost, "/v1/topics/t/dead/"+verb, ""), "the engine has failed")
	}
}

// staleCounts has counts of long ago, as an engine may.
type staleCounts struct{ engine.Engine }

func (staleCounts) Count(context.Context, string) (engine.Counts, error) { return engine.Counts{}, nil }

// setBack has a clock that was set back by an hour.
type setBack struct{ engine.Engine }

func (setBack) Now(context.Context) (time.Time, error) { return time.Now().Add(-time.Hour), nil }

func TestAllDeadTasksAreReplayed(t *testing.T) {
	for name, wrap := range map[string]func(engine.Engine) engine.Engine{
		"whatever the counts say":    func(e engine.Engine) engine.Engine { return staleCounts{e} },
		"after a step of the clocks": func(e engine.Engine) engine.Engine { return setBack{e} },
	} {
		t.Run(name, func(t *testing.T) { replaysAll(t, wrap(newEngine(t))) })
	}
}

func replaysAll(t *testing.T, e engine.Engine) {
	s := startOn(t, e, Config{})
	require.NoError(t, s.center.Handle("t", func(context.Context, timeout.Task) error { return errors.New("no") }))
	s.run(nil)
	state := func(id string) wire.Task { return get[wire.Task](s, "/v1/topics/t/tasks/"+id) }
	for i := range 3 {
		s.ask(http.StatusCreated, http.MethodPut, fmt.Sprint("/v1/topics/t/tasks/", i), `{}`)
		eventually(t, func() bool { return state(fmt.Sprint(i)).State == timeout.Dead }, "it is dead")
	}
	before := state("0").Until.Time
	require.Equal(t, wire.Cleared{Changed: 3}, do[wire.Cleared](s, http.MethodPost, "/v1/topics/t/dead/replay", ""))
	eventually(t, func() bool { task := state("0"); return task.State == timeout.Dead && task.Until.After(before) }, "it is dead again")
}

// A condition in a body would be passed over.
func TestARequestThatNeedsNoBodyMustHaveNone(t *testing.T) {
	s := startOn(t, newEngine(t), Config{})
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/1", `{"after":"1h"}`)
	for _, request := range []string{
		"POST /v1/topics/t/dead/drop", "POST /v1/topics/t/dead/replay", "POST /v1/topics/t/resume",
		"POST /v1/topics/t/tasks/1/replay", "DELETE /v1/topics/t/tasks/1", "DELETE /v1/topics/t",
	} {
		method, path, _ := strings.Cut(request, " ")
		a := s.raw(method, path, `{"cause":"x"}`)
		require.Equal(t, http.StatusBadRequest, a.status, request)
		require.Contains(t, a.body, "the body, must be empty")
	}
	require.Equal(t, timeout.Pending, get[wire.Task](s, "/v1/topics/t/tasks/1").State)
	for body, status := range map[string]int{"": http.StatusOK, "{}": http.StatusBadRequest} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/topics/t/resume", io.MultiReader(strings.NewReader(body))) // in chunks
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		answer, err := s.http.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, status, answer.StatusCode, body)
	}
}
