package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

const yearly, hourly = "0 0 1 1 *", "0 * * * *"

// The bubble's clock begins at midnight of the 1st of January 2000, UTC.
func TestAChangedScheduleMovesTheTasksThatWaitForATimeOfTheOldOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin := time.Now()
		r, ran := periodic(t, timeout.Topic{Every: yearly, Backoff: 10 * time.Hour, BackoffMax: 10 * time.Hour}, func(_ int, task timeout.Task) error {
			switch task.ID {
			case "fails":
				return errors.New("no")
			case "again":
				return timeout.Again(time.Hour)
			}
			return nil
		})
		r.set("waits", 0)
		r.set("fails", 0)
		r.set("again", 0)
		r.set("moved", 0)
		pass(time.Second)
		r.set("new", 24*time.Hour)
		for _, id := range []string{"waits", "moved"} {
			require.Equal(t, begin.AddDate(1, 0, 0), r.state(id).Due.In(begin.Location()))
		}
		mine := begin.AddDate(0, 3, 7)
		_, err := r.Move(t.Context(), timeout.Key{Topic: "orders", ID: "moved"}, mine)
		require.NoError(t, err)
		retry, again := r.state("fails").Until, r.state("again").Due
		ran.take(t, time.Second)

		change, err := r.ChangeTopic(t.Context(), timeout.Topic{Name: "orders", Every: "1s", Backoff: 10 * time.Hour, BackoffMax: 10 * time.Hour})
		require.NoError(t, err)
		require.Equal(t, 1, change.Rescheduled)
		require.Equal(t, yearly, change.Was.Every)
		require.Equal(t, "1s", change.Topic.Every)
		pass(30 * time.Second)
		require.GreaterOrEqual(t, len(ran.take(t, time.Second)), 25, "each second")
		require.Equal(t, retry, r.state("fails").Until)
		require.Equal(t, again, r.state("again").Due)
		require.True(t, mine.Equal(r.state("moved").Due))
		require.True(t, r.state("new").Due.After(begin.Add(23*time.Hour)), "it keeps the time of its set")

		change, err = r.ChangeTopic(t.Context(), timeout.Topic{Name: "orders", Every: yearly})
		require.NoError(t, err)
		require.Equal(t, 1, change.Rescheduled)
		require.Equal(t, begin.AddDate(1, 0, 0), r.state("waits").Due.In(begin.Location()))
		for _, every := range []string{"", hourly, hourly} { // without a schedule a task keeps its time, and then there is none to compare with
			change, err = r.ChangeTopic(t.Context(), timeout.Topic{Name: "orders", Every: every})
			require.NoError(t, err)
			require.Zero(t, change.Rescheduled)
		}
	})
}

// meddling is an engine in which somebody sets a task between the list and the move of it, and whose list fails when
// its pages are used up.
type meddling struct {
	engine.Engine
	pages  int
	listed func(engine.Page)
}

var errNoPage = errors.New("no page")

func (e *meddling) List(ctx context.Context, query engine.Query) (engine.Page, error) {
	if e.pages--; e.pages < 0 {
		return engine.Page{}, errNoPage
	}
	page, err := e.Engine.List(ctx, query)
	e.listed(page)
	return page, err
}

// wait makes n tasks of a topic with a yearly schedule wait for the next year: they have run.
func wait(t *testing.T, e engine.Engine, n int) {
	t.Helper()
	_, err := e.SetTopic(t.Context(), timeout.Topic{Name: "orders", Every: yearly}, false)
	require.NoError(t, err)
	tasks := make([]timeout.Task, n)
	for i := range tasks {
		tasks[i] = timeout.Task{Topic: "orders", ID: fmt.Sprint(i)}
	}
	_, err = e.Set(t.Context(), tasks)
	require.NoError(t, err)
	batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "a", Max: n, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, batch.Leased, n)
	settle(t, e, batch.Leased, time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
}

func settle(t *testing.T, e engine.Engine, leased []engine.Leased, due time.Time) {
	t.Helper()
	var outcomes []engine.Outcome
	for _, one := range leased {
		outcomes = append(outcomes, engine.Outcome{Token: one.Token, As: engine.Pending, Due: due, NewRun: true})
	}
	_, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "a", Settle: outcomes})
	require.NoError(t, err)
}

func TestAnyNumberOfTasksMovesPageByPageAndATaskSetMeanwhileStays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		inner, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer inner.Close()
		const n = engine.MaxPage + 7
		wait(t, inner, n)
		mine, e := time.Date(2000, 6, 1, 0, 0, 0, 0, time.UTC), &meddling{Engine: inner, pages: 1}
		e.listed = func(page engine.Page) {
			require.LessOrEqual(t, len(page.Tasks), engine.MaxPage)
			if e.pages == 0 {
				task := page.Tasks[0]
				_, err := inner.Set(t.Context(), []timeout.Task{{Topic: task.Topic, ID: task.ID, Due: mine}})
				require.NoError(t, err)
			}
		}
		center, err := timeout.New(e, timeout.Config{})
		require.NoError(t, err)
		defer center.Close()
		change, err := center.ChangeTopic(t.Context(), timeout.Topic{Name: "orders", Every: hourly})
		require.ErrorIs(t, err, errNoPage)
		require.ErrorContains(t, err, "topic orders is changed, and 999 of its tasks wait by the new schedule")
		require.Equal(t, engine.MaxPage-1, change.Rescheduled)
		require.Equal(t, hourly, change.Topic.Every)

		e.pages = 100
		change, err = center.ChangeTopic(t.Context(), timeout.Topic{Name: "orders", Every: yearly})
		require.NoError(t, err)
		require.Equal(t, engine.MaxPage-1, change.Rescheduled)
		change, err = center.ChangeTopic(t.Context(), timeout.Topic{Name: "orders", Every: hourly})
		require.NoError(t, err)
		require.Equal(t, n-1, change.Rescheduled)
		page, err := inner.List(t.Context(), engine.Query{Topic: "orders", State: engine.Pending, Limit: engine.MaxPage})
		require.NoError(t, err)
		require.True(t, page.Tasks[0].Due.Equal(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)))
		rest, err := inner.List(t.Context(), engine.Query{Topic: "orders", State: engine.Pending, Cursor: page.Next, Limit: engine.MaxPage})
		require.NoError(t, err)
		require.True(t, rest.Tasks[len(rest.Tasks)-1].Due.Equal(mine), "nobody moves what a caller has set")
	})
}

// Another node settles a run by the old schedule before it knows of the new one.
func TestATaskThatWaitsByTheOldScheduleAfterTheChangeMovesToo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		inner, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer inner.Close()
		_, err = inner.SetTopic(t.Context(), timeout.Topic{Name: "orders", Every: yearly}, false)
		require.NoError(t, err)
		_, err = inner.Set(t.Context(), []timeout.Task{{Topic: "orders", ID: "1"}})
		require.NoError(t, err)
		batch, err := inner.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "other", Max: 1, Lease: time.Minute})
		require.NoError(t, err)
		r := rigOn(t, inner, timeout.Config{TTL: 9 * time.Second})
		pass(time.Second)
		for _, every := range []string{hourly, "30 * * * *"} { // twice in a row: the other node knows of neither
			change, err := r.ChangeTopic(t.Context(), timeout.Topic{Name: "orders", Every: every})
			require.NoError(t, err)
			require.Zero(t, change.Rescheduled, "it runs")
		}
		pass(2 * time.Second)
		settle(t, inner, batch.Leased, time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
		pass(20 * time.Second)
		require.True(t, r.state("1").Due.Equal(time.Date(2000, 1, 1, 0, 30, 0, 0, time.UTC)), "%v", r.state("1").Due)
	})
}

// slowToSet is an engine that sets topics late.
type slowToSet struct {
	engine.Engine
	wait time.Duration
}

func (s *slowToSet) SetTopic(ctx context.Context, topic engine.Topic, absent bool, was ...engine.Topic) (engine.Topic, error) {
	time.Sleep(s.wait)
	return s.Engine.SetTopic(ctx, topic, absent, was...)
}

func TestOfTwoChangesOfAScheduleAtOnceNoTaskWaitsByTheOneThatLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		ran, slow := new(record), &slowToSet{Engine: e}
		a, b := rigOn(t, e, timeout.Config{Node: "a"}), rigOn(t, slow, timeout.Config{Node: "b"})
		for _, r := range []*rig{a, b} {
			require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error { ran.add(task.ID); return nil }))
		}
		_, err = a.SetTopic(t.Context(), timeout.Topic{Name: "orders", Every: "15 * * * *"})
		require.NoError(t, err)
		pass(20 * time.Second)
		a.set("x", 0)
		pass(time.Second)
		slow.wait = 20 * time.Millisecond
		changed := make(chan error)
		go func() {
			_, err := b.ChangeTopic(t.Context(), timeout.Topic{Name: "orders", Every: "1s"})
			changed <- err
		}()
		pass(5 * time.Millisecond) // b has read the first schedule
		_, err = a.ChangeTopic(t.Context(), timeout.Topic{Name: "orders", Every: yearly})
		require.NoError(t, err)
		require.NoError(t, <-changed)
		topic, err := a.Topic(t.Context(), "orders")
		require.NoError(t, err)
		require.Equal(t, "1s", topic.Every)
		pass(time.Minute)
		require.Greater(t, len(ran.all()), 20)
	})
}
