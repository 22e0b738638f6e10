package enginetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// engines are one or two on the same store.
func (s *suite) engines() []timeout.Engine {
	if s.opts.Second == nil {
		return []timeout.Engine{s.engine}
	}
	return []timeout.Engine{s.engine, s.opts.Second(s.T)}
}

var together = []test{
	{"each set is leased once by one of many", func(s *suite) {
		const setters, consumers, each = 4, 4, 250
		engines := s.engines()
		var setting, consuming errgroup.Group
		var mu sync.Mutex
		leased := map[string]int{}
		var settled atomic.Int64
		for i := range setters {
			setting.Go(func() error {
				for n := range each / 10 {
					var tasks []timeout.Task
					for k := range 10 {
						tasks = append(tasks, timeout.Task{
							Topic: s.topic, ID: fmt.Sprintf("%d-%d", i, 10*n+k), After: time.Duration(rand.IntN(100)) * time.Millisecond,
						})
					}
					answers, err := engines[i%len(engines)].Set(s.Context(), tasks)
					if err != nil {
						return err
					}
					for _, answer := range answers {
						if answer.Err != nil || answer.Was != timeout.None {
							return fmt.Errorf("set: %+v", answer)
						}
					}
				}
				return nil
			})
		}
		deadline := time.Now().Add(20 * time.Second)
		for i := range consumers {
			consuming.Go(func() error {
				ask := s.ask()
				ask.Max = 17
				for settled.Load() < setters*each {
					if time.Now().After(deadline) {
						return fmt.Errorf("only %d were settled", settled.Load())
					}
					batch, err := engines[i%len(engines)].Expire(s.Context(), ask)
					if err != nil {
						return err
					}
					for _, ok := range batch.Settled {
						if !ok {
							return fmt.Errorf("a lease of a minute was lost")
						}
					}
					settled.Add(int64(len(batch.Settled)))
					ask.Settle = nil
					mu.Lock()
					for _, l := range batch.Leased {
						leased[l.ID]++
						ask.Settle = append(ask.Settle, timeout.Outcome{Token: l.Token, As: timeout.Done})
					}
					mu.Unlock()
				}
				return nil
			})
		}
		require.NoError(s, setting.Wait())
		require.NoError(s, consuming.Wait())
		require.Len(s, leased, setters*each)
		for id, n := range leased {
			require.Equal(s, 1, n, id)
		}
	}},
	{"many that set and remove the same tasks get exact answers", func(s *suite) {
		engines := s.engines()
		var group errgroup.Group
		var sets, removes [4]atomic.Int64
		for i := range 8 {
			group.Go(func() error {
				engine := engines[i%len(engines)]
				for range 40 {
					k := rand.IntN(4)
					key := s.key(fmt.Sprint(k))
					if rand.IntN(2) == 0 {
						answers, err := engine.Set(s.Context(), []timeout.Task{{Topic: key.Topic, ID: key.ID, After: time.Hour, IfAbsent: true}})
						if err != nil {
							return err
						}
						if answers[0].Was == timeout.None {
							sets[k].Add(1)
						}
						continue
					}
					answers, err := engine.Remove(s.Context(), []timeout.Key{key})
					if err != nil {
						return err
					}
					if answers[0].Was == timeout.Pending {
						removes[k].Add(1)
					}
				}
				return nil
			})
		}
		require.NoError(s, group.Wait())
		for k := range sets {
			there := int64(0)
			if s.get(fmt.Sprint(k)).State == timeout.Pending {
				there = 1
			}
			require.Equal(s, removes[k].Load()+there, sets[k].Load(), "each task that was set was removed or is there")
		}
	}},
	{"what one does another sees", func(s *suite) {
		engines := s.engines()
		other := engines[len(engines)-1]
		s.set("1", time.Hour)
		answers, err := other.Move(s.Context(), []timeout.Move{{Key: s.key("1")}})
		require.NoError(s, err)
		require.Equal(s, timeout.Pending, answers[0].Was)
		token := s.lease(1, longLease)[0].Token
		batch, err := other.Expire(s.Context(), timeout.Ask{Topic: s.topic, Settle: []timeout.Outcome{{Token: token, As: timeout.Done}}})
		require.NoError(s, err)
		require.True(s, batch.Settled[0])
		require.Equal(s, timeout.None, s.get("1").State)
	}},
}
