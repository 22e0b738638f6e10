package api

import (
	"context"
	"errors"
	"net/http"
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

// Changes of several settings at the same time don't undo each other.
func TestPatchesAtTheSameTimeAllStay(t *testing.T) {
	s := start(t, Config{})
	do[wire.TopicChange](s, http.MethodPut, mail, mailBody)
	bodies := []string{`{"retries":7}`, `{"priority":7}`, `{"rate":7}`, `{"max_dead":7}`, `{"concurrency":7}`, `{"retain":7}`}
	var all sync.WaitGroup
	for _, body := range bodies {
		all.Go(func() { s.raw(http.MethodPatch, mail, body) })
	}
	all.Wait()
	topic := get[wire.TopicCounts](s, mail)
	require.Equal(t, []int{7, 7, 7, 7}, []int{topic.Retries, topic.Priority, topic.MaxDead, topic.Concurrency})
	require.InDelta(t, 7, topic.Rate, 0)
	require.Equal(t, wire.Duration(7*time.Millisecond), topic.Retain)
	require.Equal(t, "10m", topic.Every)
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
