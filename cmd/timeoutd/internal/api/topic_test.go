package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

const (
	mail     = "/v1/topics/mail"
	mailBody = `{"slots":16,"every":"10m","retries":3,"callback":{"kind":"http","target":"http://example.com/","header":{"A":"b"}}}`
)

// Whoever says one setting by PUT takes the others away, and hears of it.
func TestAPutSaysWhatItTakesFromATopic(t *testing.T) {
	s := start(t, Config{})
	require.Empty(t, do[wire.TopicChange](s, http.MethodPut, mail, mailBody).Hint)
	require.Empty(t, do[wire.TopicChange](s, http.MethodPut, mail, mailBody).Hint)
	said := do[wire.TopicChange](s, http.MethodPut, mail, `{"retries":5}`)
	require.Equal(t, "callback, every had another value, and a PUT without them sets the default: PATCH changes only what it names", said.Hint)
	require.Empty(t, said.Every)
	require.Equal(t, []int{5, 16}, []int{said.Retries, said.Slots})
	require.Empty(t, do[wire.TopicChange](s, http.MethodPut, mail, `{"retries":6}`).Hint, "there was nothing to take")
}

func TestAPatchChangesOnlyWhatItNames(t *testing.T) {
	s := start(t, Config{})
	s.ask(http.StatusNotFound, http.MethodPatch, mail, `{"retries":5}`)
	do[wire.TopicChange](s, http.MethodPut, mail, mailBody)
	s.ask(http.StatusOK, http.MethodPost, mail+"/pause", "")
	before := get[wire.TopicCounts](s, mail).Topic
	same := func(body string, change func(*wire.Topic)) {
		t.Helper()
		change(&before)
		require.Equal(t, wire.TopicChange{Topic: before}, do[wire.TopicChange](s, http.MethodPatch, mail, body))
		require.Equal(t, before, get[wire.TopicCounts](s, mail).Topic)
	}
	same(`{}`, func(*wire.Topic) {})
	same(`{"retries":5}`, func(topic *wire.Topic) { topic.Retries = 5 })
	same(`{"name":"mail","paused":true,"slots":32}`, func(topic *wire.Topic) { topic.Slots = 32 })
	same(`{"retries":null,"paused":null,"slots":null}`, func(topic *wire.Topic) { topic.Retries = 16 })
	same(`{"callback":{"kind":"http","target":"http://example.com/b"}}`, func(topic *wire.Topic) {
		topic.Callback = &wire.Callback{Kind: "http", Target: "http://example.com/b"} // without the header, which is for the other target
	})
	same(`{"callback":null,"every":"","pull":true}`, func(topic *wire.Topic) { topic.Callback, topic.Every, topic.Pull = nil, "", true })

	for body, want := range map[string]string{
		`{"retries":"x"}`:                    `field "retries" is a JSON string, must be a whole number`,
		`{"retires":5}`:                      `unknown field "retires"`,
		`{"recall":null}`:                    `unknown field "recall"`,
		`{"hint":null,"retries":null}`:       `unknown field "hint"`,
		`{"":null}`:                          `unknown field ""`,
		`{"name":"post"}`:                    `name "post" in the body, must be that of the path`,
		`{"retries":5,"Retries":6}`:          `field "Retries" is there twice`,
		`{"callback":{"kind":null}}`:         `field "kind" is null`,
		`{"callback":{"kind":"http"}}`:       `together with a callback of kind http`,
		`{"lease":"1ms"}`:                    `lease 1ms of topic mail, must be at least 100ms`,
		`{"pull":true,"global_rate":1}`:      `must be without them`,
		`null`:                               `must be a JSON object`,
		`{"slots":16}`:                       `must be at least 32`,
		`{"paused":false}`:                   `pause and resume change that`,
		`{"every":"CRON_TZ=Mars * * * * *"}`: `every`,
	} {
		require.Contains(t, s.raw(http.MethodPatch, mail, body).problem(t).Detail, want, body)
	}
	require.Equal(t, before, get[wire.TopicCounts](s, mail).Topic, "nothing is changed then")
	require.Contains(t, s.raw(http.MethodTrace, mail, "").header.Get("Allow"), "PATCH")
}

// Changes of several settings at the same time don't undo each other, at different nodes either.
func TestPatchesAtTheSameTimeAllStay(t *testing.T) {
	e := newEngine(t)
	s, other := startOn(t, e, Config{}), startOn(t, e, Config{})
	do[wire.TopicChange](s, http.MethodPut, mail, mailBody)
	bodies := []string{`{"retries":7}`, `{"priority":7}`, `{"rate":7}`, `{"max_dead":7}`, `{"concurrency":7}`, `{"retain":7}`}
	var all sync.WaitGroup
	for i, body := range bodies {
		all.Go(func() { []*site{s, other}[i%2].raw(http.MethodPatch, mail, body) })
	}
	all.Wait()
	topic := get[wire.TopicCounts](s, mail)
	require.Equal(t, []int{7, 7, 7, 7}, []int{topic.Retries, topic.Priority, topic.MaxDead, topic.Concurrency})
	require.InDelta(t, 7, topic.Rate, 0)
	require.Equal(t, wire.Duration(7*time.Millisecond), topic.Retain)
	require.Equal(t, "10m", topic.Every)
}

// changes asks for changes of mail until one is made, and returns the statuses.
func changes(s *site, header ...string) map[string]int {
	statuses := make(map[string]int)
	for _, request := range []string{"PUT ", "PATCH ", "POST /pause", "POST /resume"} {
		method, rest, _ := strings.Cut(request, " ")
		body := ""
		if rest == "" {
			body = `{"retries":9}`
		}
		a := s.raw(method, mail+rest, body, header...)
		s.validate(method, mail+rest, body, header, a)
		if statuses[request] = a.status; a.status == http.StatusPreconditionFailed {
			require.Contains(s.t, a.problem(s.t).Detail, "mail is")
		}
		if a.status == http.StatusOK {
			require.Equal(s.t, a.header.Get("ETag"), s.raw(http.MethodGet, mail, "").header.Get("ETag"))
			break
		}
	}
	return statuses
}

func TestAChangeOnConditionOfATopicThatIsAnotherOneIsNone(t *testing.T) {
	s := start(t, Config{Tokens: []Token{{Scope: Admin, Secret: master}, {Scope: Read, Secret: reader}}})
	s.token = master
	tag := func() string { return s.raw(http.MethodGet, mail, "").header.Get("ETag") }
	require.Equal(t, http.StatusPreconditionFailed, s.raw(http.MethodPut, mail, `{}`, "If-Match", "*").status, "it is not there")
	s.ask(http.StatusNotFound, http.MethodGet, mail, "")
	first := s.raw(http.MethodPut, mail, mailBody, "If-None-Match", "*")
	require.Equal(t, http.StatusOK, first.status)
	require.Equal(t, first.header.Get("ETag"), tag())
	require.Regexp(t, `^"[^"]+"$`, tag())
	s.ask(http.StatusPreconditionFailed, http.MethodPut, mail, `{}`, "If-None-Match", "*")
	require.Equal(t, first.header.Get("ETag"), tag(), "nothing is changed then")

	s.ask(http.StatusCreated, http.MethodPut, mail+"/tasks/a", `{"after":"1h"}`)
	require.Equal(t, first.header.Get("ETag"), tag(), "tasks don't count")
	s.token = reader
	masked := tag()
	s.token = master
	do[wire.TopicChange](s, http.MethodPatch, mail, `{"callback":{"kind":"http","target":"http://example.com/","header":{"A":"c"}}}`)
	require.NotEqual(t, first.header.Get("ETag"), tag(), "a secret counts")
	s.token = reader
	require.Equal(t, masked, tag(), "for those who see it")
	s.token = master

	before := get[wire.TopicCounts](s, mail).Topic
	refused := map[string]int{"PUT ": 412, "PATCH ": 412, "POST /pause": 412, "POST /resume": 412}
	for _, stale := range []string{first.header.Get("ETag"), `"x"`, `"x", "y"`, "W/" + tag(), `""`} {
		require.Equal(t, refused, changes(s, "If-Match", stale), stale)
	}
	for _, bad := range []string{"", "x", `"x`, `"x", y`, "W/"} {
		a := s.raw(http.MethodPatch, mail, `{"retries":9}`, "If-Match", bad)
		require.Contains(t, a.problem(t).Detail, fmt.Sprintf("If-Match %q, must be * or the ETag of a topic", bad))
	}
	require.Equal(t, http.StatusPreconditionFailed, s.raw(http.MethodPost, mail+"/pause", ``, "If-None-Match", "*").status)
	require.Equal(t, http.StatusNotFound, s.raw(http.MethodPost, "/v1/topics/none/pause", ``, "If-None-Match", "*").status)
	require.Contains(t, s.raw(http.MethodDelete, mail, "", "If-Match", tag()).problem(t).Detail, "of a DELETE, must not be there")
	require.Contains(t, s.raw(http.MethodPut, mail, "{}", "If-None-Match", tag()).problem(t).Detail, "must be *")
	require.Equal(t, before, get[wire.TopicCounts](s, mail).Topic, "nothing is changed then")

	require.Equal(t, 200, changes(s, "If-Match", `"x", `+tag())["PUT "])
	require.Equal(t, 200, changes(s, "If-Match", "*")["PUT "])
	s.ask(http.StatusOK, http.MethodPatch, mail, `{"retries":5}`, "If-Match", tag())
	s.ask(http.StatusOK, http.MethodPost, mail+"/pause", `{"for":"1h"}`, "If-Match", tag())
	s.ask(http.StatusOK, http.MethodPatch, mail, `{"retries":6}`, "If-Match", tag())
	topic := get[wire.TopicCounts](s, mail)
	require.True(t, topic.Paused && !topic.PausedUntil.IsZero(), "a change on condition leaves the pause")
	s.ask(http.StatusOK, http.MethodPost, mail+"/resume", "", "If-Match", tag())
	require.Equal(t, 6, get[wire.TopicCounts](s, mail).Retries)
}

// Of many who read a topic and change it, none takes back what another has done.
func TestSimultaneousChangesOnConditionAreOneAfterTheOther(t *testing.T) {
	e := newEngine(t)
	first := startOn(t, e, Config{})
	do[wire.TopicChange](first, http.MethodPut, mail, `{"retries":1}`)
	const writers, rounds = 4, 5
	var all sync.WaitGroup
	for i := range writers {
		s := first
		if i%2 == 1 {
			s = startOn(t, e, Config{})
		}
		all.Go(func() {
			for n := 0; n < rounds; {
				a := s.raw(http.MethodGet, mail, "")
				var has wire.TopicCounts
				if json.Unmarshal([]byte(a.body), &has) != nil {
					return
				}
				body := fmt.Sprintf(`{"retries":%d}`, has.Retries+1)
				if s.raw(http.MethodPatch, mail, body, "If-Match", a.header.Get("ETag")).status == http.StatusOK {
					n++
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, 1+writers*rounds, get[wire.TopicCounts](first, mail).Retries)
}

func TestAPauseEndsAsItsRequestSays(t *testing.T) {
	s := start(t, Config{})
	do[wire.TopicChange](s, http.MethodPut, mail, `{}`)
	ran := make(chan string, 9)
	s.run(map[string]timeout.Handler{"mail": func(_ context.Context, task timeout.Task) error { ran <- task.ID; return nil }})
	paused := do[wire.Topic](s, http.MethodPost, mail+"/pause", `{"for":"1h"}`)
	require.True(t, paused.Paused)
	require.Equal(t, paused, get[wire.TopicCounts](s, mail).Topic)
	again := fmt.Sprintf(`{"priority":7,"paused":true,"paused_until":%q}`, paused.PausedUntil.UTC().Format(time.RFC3339Nano))
	paused.Priority = 7
	require.Equal(t, paused, do[wire.TopicChange](s, http.MethodPut, mail, again).Topic)
	before := time.Now()
	do[wire.Topic](s, http.MethodPost, mail+"/pause", `{"for":"300ms"}`)
	s.ask(http.StatusCreated, http.MethodPut, mail+"/tasks/a", `{}`)
	require.Equal(t, "a", <-ran)
	require.GreaterOrEqual(t, time.Since(before), 300*time.Millisecond)
	require.False(t, get[wire.TopicCounts](s, mail).Paused)

	later := wire.Instant{Time: time.Now().Add(time.Hour).Truncate(time.Millisecond)}
	text, err := json.Marshal(later)
	require.NoError(t, err)
	for _, until := range []string{string(text), fmt.Sprint(later.UnixMilli())} {
		require.WithinDuration(t, later.Time, do[wire.Topic](s, http.MethodPost, mail+"/pause", `{"until":`+until+`}`).PausedUntil.Time, 0)
	}
	require.Contains(t, s.raw(http.MethodPut, mail, `{"paused_until":"2100-01-01T00:00:00Z"}`).problem(t).Detail, "pause and resume change that")
	require.True(t, do[wire.Topic](s, http.MethodPost, mail+"/pause", ``).PausedUntil.IsZero(), "the last request counts")
	for body, want := range map[string]string{
		`{"until":"2020-01-01T00:00:00Z"}`:            "pause of topic mail until 2020-01-01 00:00:00 +0000 UTC, must be after the engine's present time",
		`{"until":"12020-01-01T00:00:00Z"}`:           "12020",
		`{"until":1796040874}`:                        "1796040874",
		`{"for":"0s"}`:                                "for 0s of a pause, must be positive",
		`{"for":"-1m"}`:                               "-1m",
		`{"for":"876001h"}`:                           "at most 876000h",
		`{"for":"1h","until":"2100-01-01T00:00:00Z"}`: "must be one of them",
		`{"after":"1h"}`:                              `unknown field "after"`,
		`null`:                                        "must be a JSON object",
	} {
		a := s.raw(http.MethodPost, mail+"/pause", body)
		require.Equal(t, http.StatusBadRequest, a.status, body)
		require.Contains(t, a.problem(t).Detail, want)
	}
	require.True(t, get[wire.TopicCounts](s, mail).PausedUntil.IsZero(), "nothing is changed then")
	for path, body := range map[string]string{
		"/v1/topics/new":  `{"paused_until":"2100-01-01T00:00:00Z"}`,
		"/v1/topics/past": `{"paused":true,"paused_until":"2020-01-01T00:00:00Z"}`,
	} {
		require.Equal(t, http.StatusBadRequest, s.raw(http.MethodPut, path, body).status, body)
		s.ask(http.StatusNotFound, http.MethodGet, path, "")
	}
	require.False(t, do[wire.TopicChange](s, http.MethodPut, "/v1/topics/new", `{"paused":true,"paused_until":"2100-01-01T00:00:00Z"}`).PausedUntil.IsZero())
	s.ask(http.StatusNotFound, http.MethodPost, "/v1/topics/none/pause", `{"for":"1h"}`)
	s.ask(http.StatusNotFound, http.MethodPost, "/v1/topics/none/pause", "")
}

// pageless is an engine whose lists fail.
type pageless struct{ engine.Engine }

func (pageless) List(context.Context, engine.Query) (engine.Page, error) {
	return engine.Page{}, errors.New("10.0.0.7: no page")
}

func TestAnAnswerSaysHowManyTasksWaitByTheNewSchedule(t *testing.T) {
	const yearly = `{"every":"0 0 1 1 *"}`
	s := start(t, Config{})
	do[wire.TopicChange](s, http.MethodPut, mail, yearly)
	for _, id := range []string{"a", "b"} {
		s.ask(http.StatusCreated, http.MethodPut, mail+"/tasks/"+id, `{}`)
	}
	s.ask(http.StatusCreated, http.MethodPut, mail+"/tasks/new", `{"after":"1h"}`)
	s.run(map[string]timeout.Handler{"mail": func(context.Context, timeout.Task) error { return nil }})
	waits := func(id string) time.Time {
		task := get[wire.Task](s, mail+"/tasks/"+id)
		if task.State != timeout.Pending || task.Calls == 0 {
			return time.Time{}
		}
		return task.Due.Time
	}
	eventually(t, func() bool { return !waits("a").IsZero() && !waits("b").IsZero() }, "they have run")
	require.Zero(t, waits("a").YearDay()-1)
	require.Equal(t, 2, do[wire.TopicChange](s, http.MethodPut, mail, `{"every":"1h"}`).Rescheduled)
	require.LessOrEqual(t, time.Until(waits("a")), time.Hour)

	client, err := timeoutclient.New(s.url, timeoutclient.Config{})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	kept, rescheduled, err := client.ChangeTopic(t.Context(), "mail", func(topic *engine.Topic) { topic.Every = "0 0 1 1 *" })
	require.NoError(t, err)
	require.Equal(t, "0 0 1 1 *", kept.Every)
	require.Equal(t, 2, rescheduled)
	require.Zero(t, waits("b").YearDay()-1)

	broken := startOn(t, pageless{newEngine(t)}, Config{})
	do[wire.TopicChange](broken, http.MethodPut, mail, yearly)
	detail := broken.raw(http.MethodPatch, mail, `{"every":"1h"}`).problem(t).Detail
	require.Contains(t, detail, "topic mail is changed, and 0 of its waiting tasks have another time: the engine has failed")
	require.Equal(t, "1h", get[wire.TopicCounts](broken, mail).Every)
}

// The client sends only what its caller has changed.
func TestTheClientLeavesWhatItsCallerLeaves(t *testing.T) {
	s := start(t, Config{})
	client, err := timeoutclient.New(s.url, timeoutclient.Config{})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	_, _, err = client.ChangeTopic(t.Context(), "mail", func(*engine.Topic) {})
	require.ErrorIs(t, err, engine.ErrNotFound)
	do[wire.TopicChange](s, http.MethodPut, mail, mailBody)
	kept, _, err := client.ChangeTopic(t.Context(), "mail", func(topic *engine.Topic) {
		require.Equal(t, "10m", topic.Every)
		do[wire.TopicChange](s, http.MethodPatch, mail, `{"priority":7}`) // somebody else
		topic.Retries, topic.Every = 0, ""
	})
	require.NoError(t, err)
	require.Equal(t, []int{16, 7, 16}, []int{kept.Retries, kept.Priority, kept.Slots})
	require.Empty(t, kept.Every)
	require.Equal(t, "b", kept.Callback.Header["A"])
	_, _, err = client.ChangeTopic(t.Context(), "mail", func(topic *engine.Topic) { topic.Callback = nil })
	require.NoError(t, err)
	require.Nil(t, get[wire.TopicCounts](s, mail).Callback)
	_, _, err = client.ChangeTopic(t.Context(), "mail", func(topic *engine.Topic) { topic.Paused = true })
	require.ErrorIs(t, err, engine.ErrConflict)
}
