package keepalive

import (
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests are about one rule: each answer, each probe and each dry run is for one silence.

// OnIdle touches the connection in question. A touch is no byte.
func TestOnIdleForReadIdleTouches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		k := newKeeper(t, Config{Timeout: time.Hour, ReadIdle: 5 * time.Second, OnIdle: func(conn any, _ Reason) Verdict {
			if asked.Add(1) < 10 {
				Touch(conn)
			}
			return Close
		}})
		c, _ := pipe(k)
		begin := time.Now()
		requireClosed(t, k, c, ReasonReadIdle, begin, 5*time.Second)
		require.EqualValues(t, 1, asked.Load())
	})
}

// Nothing is read: fine with OnIdle. Nothing is written either.
func TestIgnoreIsAboutOneReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, ReadIdle: 5 * time.Second, WriteIdle: 8 * time.Second, OnIdle: func(_ any, why Reason) Verdict {
			if why == ReasonReadIdle {
				return Ignore
			}
			return Close
		}})
		c, _ := pipe(k)
		begin := time.Now()
		requireClosed(t, k, c, ReasonWriteIdle, begin, 8*time.Second)
	})
}

// A byte from before the probe is no answer to it.
func TestOldBytesAnswerNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{
			Timeout: time.Hour, ReadIdle: 5 * time.Second,
			Probe:  Probing{After: time.Minute, Timeout: 3 * time.Second, Send: func(any) error { return nil }},
			OnIdle: func(any, Reason) Verdict { return Probe },
		})
		c, peer := pipe(k)
		go func() { _, _ = peer.Write([]byte("x")) }()
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		begin := time.Now()
		requireClosed(t, k, c, ReasonNoAnswer, begin, 8*time.Second)
	})
}

// ReadIdle ends while a probe is sent, and the user extends it. The probe that failed still ends the connection.
func TestQuestionAboutReadIdleForgetsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		k := newKeeper(t, Config{
			Timeout: time.Minute, ReadIdle: 30 * time.Second,
			Probe: Probing{After: 30 * time.Second, Timeout: 10 * time.Second, Send: func(any) error {
				sent.Add(1)
				time.Sleep(10 * time.Second)
				return io.ErrShortWrite
			}},
			OnIdle: func(_ any, why Reason) Verdict {
				if why == ReasonReadIdle {
					return Extend(time.Hour)
				}
				return Close
			},
		})
		c, _ := pipe(k)
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonNoAnswer)
		require.EqualValues(t, 1, sent.Load())
	})
}

// ReadIdle ends while the user is asked about the silence of the peer. What the user says of the one holds for it alone.
func TestQuestionAboutReadIdleForgetsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		k := newKeeper(t, Config{
			Timeout: 9500 * time.Millisecond, ReadIdle: 10 * time.Second,
			OnIdle: func(_ any, why Reason) Verdict {
				switch {
				case why == ReasonReadIdle:
					return Ignore
				case asked.Add(1) == 1:
					time.Sleep(time.Second)
					return Extend(time.Minute)
				}
				return Close
			},
		})
		c, _ := pipe(k)
		begin := time.Now()
		requireClosed(t, k, c, ReasonIdle, begin, 70500*time.Millisecond)
		require.EqualValues(t, 2, asked.Load())
	})
}

// The timeout becomes longer while the user is asked. What the user says holds.
func TestExtendHoldsUnderANewConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		cfg := Config{Timeout: time.Minute, OnIdle: func(any, Reason) Verdict {
			if asked.Add(1) > 1 {
				return Close
			}
			time.Sleep(2 * time.Second)
			return Extend(time.Hour)
		}}
		k := newKeeper(t, cfg)
		c, peer := pipe(k)
		go func() { _, _ = peer.Write([]byte("x")) }()
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		begin := time.Now()
		go func() {
			time.Sleep(61 * time.Second)
			cfg.Timeout = 100 * time.Second
			assert.NoError(t, k.Update(cfg))
		}()
		requireClosed(t, k, c, ReasonIdle, begin, time.Hour+62*time.Second)
		require.EqualValues(t, 2, asked.Load())
	})
}

// A connection grows too old in a dry run, and is closed after it.
func TestMaxAgeAfterDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: time.Minute, Age: Age{Max: time.Minute, Jitter: -1}, Closing: Closing{DryRun: true}}
		k := newKeeper(t, cfg)
		time.Sleep(time.Second)
		c, _ := pipe(k)
		beatEvery(t, c, 5*time.Second)
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 1, k.Stats().WouldClose[ReasonMaxAge])
		cfg.Closing.DryRun = false
		require.NoError(t, k.Update(cfg))
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 1, k.Stats().Closed[ReasonMaxAge])
		_ = c.Close()
	})
}

// The program says goodbye to nobody who stays. After the dry run a connection is told first, and has its grace.
func TestOnMaxIsNotCalledInADryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told, closed []time.Time
		cfg := Config{
			Age:     Age{Max: time.Minute, Grace: time.Minute, OnMax: func(any) { told = append(told, time.Now()) }},
			Closing: Closing{DryRun: true},
			OnClose: func(any, Reason) { closed = append(closed, time.Now()) },
		}
		k := newKeeper(t, cfg)
		c, _ := pipe(k)
		beatEvery(t, c, 5*time.Second)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1, k.Stats().WouldClose[ReasonMaxAge])
		require.Empty(t, told)

		cfg.Closing.DryRun = false
		require.NoError(t, k.Update(cfg))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.Len(t, told, 1)
		require.Len(t, closed, 1)
		require.GreaterOrEqual(t, closed[0].Sub(told[0]), time.Minute)
	})
}

// A dry run begins while many wait for the rate: nobody is closed any more.
func TestDryRunStopsPacedCloses(t *testing.T) {
	for _, cfg := range []Config{
		{Timeout: time.Minute},
		{Timeout: time.Hour, Age: Age{Max: time.Minute, Jitter: -1}},
		{Timeout: time.Hour, ReadIdle: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg.Closing.MaxPerSecond = 1
			k := newKeeper(t, cfg)
			for range 100 {
				c, _ := pipe(k)
				t.Cleanup(func() { _ = c.Close() })
			}
			time.Sleep(70 * time.Second)
			before := k.Len()
			require.Positive(t, before)
			require.Less(t, before, 100)
			cfg.Closing.DryRun = true
			require.NoError(t, k.Update(cfg))
			time.Sleep(10 * time.Minute)
			require.GreaterOrEqual(t, k.Len(), before-1)
		})
	}
}

// Bytes from before the update are no strike.
func TestRateBeginsWithUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: time.Hour}
		k := newKeeper(t, cfg)
		c, peer := pipe(k)
		go func() { _, _ = peer.Write([]byte("hello")) }()
		_, err := c.Read(make([]byte, 5))
		require.NoError(t, err)
		cfg.Rate = Rate{MinBytes: 100, Strikes: 1}
		require.NoError(t, k.Update(cfg))
		time.Sleep(10 * time.Minute)
		require.Equal(t, 1, k.Len(), "it has sent nothing since")
		_ = c.Close()
	})
}

// A held connection is busy: no timeout could have ended it.
func TestHeldSilencesAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Advise: true})
		c, _ := pipe(k)
		release := Of(c).Hold()
		time.Sleep(52 * time.Second)
		release()
		time.Sleep(10 * time.Second)
		require.Zero(t, k.Stats().NearMisses)
		_ = c.Close()
	})
}

// Several policies would have closed a connection at the same instant.
func TestEachPolicyOfADryRunIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{
			Timeout: time.Minute, ReadIdle: time.Minute, WriteIdle: time.Minute,
			Age: Age{Max: time.Minute, Jitter: -1}, Closing: Closing{DryRun: true},
		})
		c, _ := pipe(k)
		time.Sleep(61 * time.Second)
		for _, why := range []Reason{ReasonIdle, ReasonReadIdle, ReasonWriteIdle, ReasonMaxAge} {
			require.EqualValues(t, 1, k.Stats().WouldClose[why], why)
		}
		_ = c.Close()
	})
}

// An ignored silence has no end.
func TestDeadlineOfAnIgnoredSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, OnIdle: func(any, Reason) Verdict { return Ignore }})
		c, _ := pipe(k)
		time.Sleep(61 * time.Second)
		_, why, ok := Of(c).Deadline()
		require.True(t, ok)
		require.Zero(t, why)
		_ = c.Close()
	})
}

// Bytes may come while the connection waits for the rate. They give it a little time, and not
// as long as the Keeper has been running.
func TestBytesWhileItWaitsForTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Activity: ActivityManual, Closing: Closing{MaxPerSecond: 1}})
		time.Sleep(time.Hour)
		begin := time.Now()
		for range 3 {
			c, peer := pipe(k)
			drained(t, c)
			go func() {
				time.Sleep(60500 * ms)
				_, _ = peer.Write([]byte("x"))
			}()
		}
		for k.Len() > 0 {
			time.Sleep(time.Second)
			require.Less(t, time.Since(begin), 2*time.Minute)
		}
	})
}
