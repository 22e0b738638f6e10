// Package enginetest is the conformance suite of timeout.Engine: what every engine must do,
// asked of a real one.
package enginetest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Options are what Run can be told of an engine. The zero value is useful.
type Options struct {
	// Second returns another engine on the same store, as a second process would have it.
	// Nil means that there can be none.
	Second func(t *testing.T) timeout.Engine
}

// Run asks an engine, which may have other topics than those of the suite, for all that the
// contract says. It takes some ten seconds, most of which are leases that run out. The
// engine is not closed.
func Run(t *testing.T, engine timeout.Engine, opts Options) {
	t.Helper()
	groups := []struct {
		name  string
		tests []test
	}{
		{"topics", topics},
		{"verbs", verbs},
		{"leases", leases},
		{"lists", lists},
		{"members", members},
		{"logs", logs},
		{"truth", truths},
		{"together", together},
	}
	t.Run("group", func(t *testing.T) {
		for _, group := range groups {
			for _, test := range group.tests {
				t.Run(group.name+"/"+test.name, func(t *testing.T) {
					t.Parallel()
					test.run(newSuite(t, engine, opts))
				})
			}
		}
	})
}

type test struct {
	name string
	run  func(*suite)
}

// suite is what a test has: an engine, and a topic of its own.
type suite struct {
	*testing.T
	engine timeout.Engine
	opts   Options
	topic  string
}

var topicNumber atomic.Int64

func newSuite(t *testing.T, engine timeout.Engine, opts Options) *suite {
	s := &suite{T: t, engine: engine, opts: opts}
	s.topic = fmt.Sprintf("%.60s-%d", strings.NewReplacer("/", ".", "#", ".").Replace(t.Name()[strings.LastIndex(t.Name(), "/")+1:]), topicNumber.Add(1)+time.Now().UnixNano()%1e9)
	s.make(timeout.Topic{})
	t.Cleanup(func() { _ = engine.DropTopic(context.Background(), s.topic) })
	return s
}

// make sets the suite's topic.
func (s *suite) make(topic timeout.Topic) timeout.Topic {
	s.Helper()
	topic.Name = s.topic
	kept, err := s.engine.SetTopic(s.Context(), topic, false)
	require.NoError(s, err)
	return kept
}

// makeAnew is make for fewer slots than the topic has.
func (s *suite) makeAnew(topic timeout.Topic) timeout.Topic {
	s.Helper()
	require.NoError(s, s.engine.DropTopic(s.Context(), s.topic))
	return s.make(topic)
}

func (s *suite) key(id string) timeout.Key { return timeout.Key{Topic: s.topic, ID: id} }

func (s *suite) set(id string, after time.Duration) timeout.Answer {
	s.Helper()
	return s.setTask(timeout.Task{ID: id, After: after})
}

func (s *suite) setTask(task timeout.Task) timeout.Answer {
	s.Helper()
	task.Topic = s.topic
	answers, err := s.engine.Set(s.Context(), []timeout.Task{task})
	require.NoError(s, err)
	require.Len(s, answers, 1)
	require.NoError(s, answers[0].Err)
	return answers[0]
}

func (s *suite) move(id string, after time.Duration) timeout.Answer {
	s.Helper()
	answers, err := s.engine.Move(s.Context(), []timeout.Move{{Key: s.key(id), After: after}})
	require.NoError(s, err)
	require.NoError(s, answers[0].Err)
	return answers[0]
}

func (s *suite) remove(id string) timeout.Answer {
	s.Helper()
	answers, err := s.engine.Remove(s.Context(), []timeout.Key{s.key(id)})
	require.NoError(s, err)
	require.NoError(s, answers[0].Err)
	return answers[0]
}

func (s *suite) replay(id string) timeout.Answer {
	s.Helper()
	answers, err := s.engine.Replay(s.Context(), []timeout.Key{s.key(id)})
	require.NoError(s, err)
	require.NoError(s, answers[0].Err)
	return answers[0]
}

func (s *suite) get(id string) timeout.Task {
	s.Helper()
	tasks, err := s.engine.Get(s.Context(), []timeout.Key{s.key(id)})
	require.NoError(s, err)
	require.Len(s, tasks, 1)
	require.Equal(s, s.key(id), tasks[0].Key())
	return tasks[0]
}

func (s *suite) count() timeout.Counts {
	s.Helper()
	counts, err := s.engine.Count(s.Context(), s.topic)
	require.NoError(s, err)
	return counts
}

// longLease is one that does not end during a test, and shortLease one that does.
const (
	longLease  = time.Minute
	shortLease = 150 * time.Millisecond
)

func (s *suite) ask() timeout.Ask {
	return timeout.Ask{Topic: s.topic, Node: "tester", Max: 100, Lease: longLease}
}

func (s *suite) expire(ask timeout.Ask) timeout.Batch {
	s.Helper()
	batch, err := s.engine.Expire(s.Context(), ask)
	require.NoError(s, err)
	require.Len(s, batch.Settled, len(ask.Settle))
	require.LessOrEqual(s, len(batch.Leased), max(ask.Max, 0))
	for _, leased := range batch.Leased {
		require.Equal(s, leased.Key(), leased.Token.Key)
		require.Equal(s, timeout.Running, leased.State)
		require.LessOrEqual(s, leased.Due.UnixMilli(), batch.Now.UnixMilli(), "early")
	}
	return batch
}

// lease leases what is due until there are so many, and fails where they don't come.
func (s *suite) lease(n int, lease time.Duration) []timeout.Leased {
	s.Helper()
	var leased []timeout.Leased
	s.eventually(func() bool {
		ask := s.ask()
		ask.Lease, ask.Max = lease, n-len(leased)
		leased = append(leased, s.expire(ask).Leased...)
		return len(leased) == n
	}, "%d tasks should be due", n)
	return leased
}

// eventually waits for up to ten seconds until ok reports true, on the test's own goroutine,
// so that it may fail the test.
func (s *suite) eventually(ok func() bool, message ...any) {
	s.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.Fail(s, "this did not come true in ten seconds", message...)
		}
	}
}

// none says that nothing is due.
func (s *suite) none() {
	s.Helper()
	require.Empty(s, s.expire(s.ask()).Leased)
}

// settle settles one lease, and reports whether that had an effect.
func (s *suite) settle(token timeout.Token, as timeout.State, change func(*timeout.Outcome)) bool {
	s.Helper()
	outcome := timeout.Outcome{Token: token, As: as, Started: time.Now(), Took: time.Millisecond}
	if change != nil {
		change(&outcome)
	}
	return s.expire(timeout.Ask{Topic: s.topic, Node: "tester", Settle: []timeout.Outcome{outcome}}).Settled[0]
}

func (s *suite) extend(token timeout.Token, lease time.Duration) bool {
	s.Helper()
	held, err := s.engine.Extend(s.Context(), []timeout.Token{token}, lease)
	require.NoError(s, err)
	return held[0]
}

// bring has a task be in a state, and returns its last token.
func (s *suite) bring(id string, state timeout.State) timeout.Token {
	s.Helper()
	if state == timeout.None {
		return timeout.Token{}
	}
	s.set(id, map[bool]time.Duration{true: time.Hour}[state == timeout.Pending || state == timeout.Removed])
	switch state {
	case timeout.Pending:
		return timeout.Token{}
	case timeout.Removed:
		s.remove(id)
		return timeout.Token{}
	}
	token := s.lease(1, longLease)[0].Token
	if state != timeout.Running {
		require.True(s, s.settle(token, state, func(o *timeout.Outcome) { o.Error = "last" }))
	}
	return token
}
