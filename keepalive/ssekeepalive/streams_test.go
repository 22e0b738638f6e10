package ssekeepalive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAQuietStreamGetsACommentEachInterval(t *testing.T) {
	for _, cfg := range []Config{
		{Interval: interval},
		{Interval: interval, WriteTimeout: -1},
		{Interval: interval, WriteTimeout: time.Hour},
		{Interval: interval, WriteTimeout: 3 * time.Second}, // visits between the comments
	} {
		t.Run(fmt.Sprint("WriteTimeout=", cfg.WriteTimeout), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, w := newStreams(t, cfg), newFakeWriter(t)
				serve(k, w, quietly(10*interval+interval/2))
				sent := w.all()[1:] // the header
				require.Len(t, sent, 10)
				for i, comment := range sent {
					require.Equal(t, ": \n\n", comment.bytes)
					quiet := comment.at.Sub(w.all()[i].at)
					require.GreaterOrEqual(t, quiet, interval)
					require.LessOrEqual(t, quiet, interval+late)
				}
				require.EqualValues(t, 10, k.Stats().Comments)
				time.Sleep(10 * interval)
				require.Len(t, w.all(), 11, "the handler has returned")
				require.Zero(t, k.Stats().Wheel.Pending)
			})
		})
	}
}

func TestShortIntervalsHaveShortTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: 10 * time.Millisecond}), newFakeWriter(t)
		serve(k, w, quietly(125*time.Millisecond))
		require.GreaterOrEqual(t, len(w.all()), 11)
		require.LessOrEqual(t, len(w.all()), 13)
	})
}

func TestAnEventMovesTheComment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval, Comment: "still here"}), newFakeWriter(t)
		serve(k, w, func(w http.ResponseWriter, _ *http.Request) {
			for range 10 {
				require.NoError(t, send(w, "data: x\n\n"))
				time.Sleep(interval - time.Second)
			}
			time.Sleep(1500 * time.Millisecond)
		})
		require.Equal(t, strings.Repeat("data: x\n\n", 10)+": still here\n\n", w.said())
	})
}

func TestACommentWaitsForTheEndOfAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval}), newFakeWriter(t)
		serve(k, w, func(w http.ResponseWriter, _ *http.Request) {
			require.NoError(t, send(w, "data: a"))
			time.Sleep(interval + time.Second)
			require.NoError(t, send(w, "\n"))
			time.Sleep(interval + time.Second)
			require.EqualValues(t, 2, k.Stats().Withheld)
			require.Zero(t, k.Stats().Comments)
			require.NoError(t, send(w, "\n"))
			time.Sleep(interval + time.Second)
			require.EqualValues(t, 1, k.Stats().Comments)
			require.NoError(t, send(w, "data: b\n"))
			time.Sleep(5*interval + time.Second)
		})
		require.Equal(t, "data: a\n\n: \n\ndata: b\n", w.said())
		require.EqualValues(t, 7, k.Stats().Withheld)
	})
}

// Bytes that are not flushed have not left, so they postpone nothing.
func TestACommentSendsWhatWasNotFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval}), newFakeWriter(t)
		serve(k, w, func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				fmt.Fprint(w, "data: x\n\n")
				time.Sleep(interval/3 + late)
			}
		})
		require.Equal(t, strings.Repeat("data: x\n\n", 3)+": \n\n", w.said())
	})
}

// The handler's write fails at its bound, whatever the interval is, and nobody else waits.
func TestASlowReaderIsEnded(t *testing.T) {
	for _, bound := range []time.Duration{interval / 7, interval, 3*interval + time.Second} {
		for _, event := range []string{"data: x\n\n", "data: x"} {
			t.Run(fmt.Sprintf("WriteTimeout=%v/event=%q", bound, event), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := newStreams(t, Config{Interval: interval, WriteTimeout: bound})
					slow, other := newFakeWriter(t), newFakeWriter(t)
					var wg sync.WaitGroup
					wg.Go(func() { serve(k, other, quietly(10*interval)) })
					serve(k, slow, func(w http.ResponseWriter, _ *http.Request) {
						require.NoError(t, send(w, "data: first\n\n"))
						time.Sleep(interval / 3)
						slow.read(false)
						begun := time.Now()
						_, err := w.Write([]byte(event))
						requireSlow(t, err)
						require.GreaterOrEqual(t, time.Since(begun), bound)
						require.LessOrEqual(t, time.Since(begun), bound+late)
						_, err = w.Write([]byte(event))
						requireSlow(t, err)
						requireSlow(t, http.NewResponseController(w).Flush())
						requireSlow(t, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour)))
						time.Sleep(3 * interval)
					})
					require.EqualValues(t, 1, k.Stats().Slow)
					require.Zero(t, k.Stats().Failed)
					wg.Wait()
					require.GreaterOrEqual(t, len(other.all()), 9)
				})
			})
		}
	}
}

func requireSlow(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, ErrSlowReader)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	var timeout net.Error
	require.True(t, errors.As(err, &timeout) && timeout.Timeout())
}

// A comment blocks. The handler's event waits for it, fails with it, and the handler can return.
func TestASlowReaderOfACommentIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval, WriteTimeout: 2 * interval}), newFakeWriter(t)
		serve(k, w, func(rw http.ResponseWriter, _ *http.Request) {
			require.NoError(t, send(rw, "data: x\n\n"))
			w.read(false)
			begun := time.Now()
			time.Sleep(interval + time.Second)
			requireSlow(t, send(rw, "data: y\n\n"))
			require.GreaterOrEqual(t, time.Since(begun), 3*interval)
			require.LessOrEqual(t, time.Since(begun), 3*interval+2*late)
		})
		require.EqualValues(t, 1, k.Stats().Slow)
		require.Zero(t, k.Stats().Failed)
		require.Equal(t, "data: x\n\n", w.said())
	})
}

// The handler returns while a comment blocks: it waits, since net/http would use the connection next.
func TestAHandlerWaitsForTheCommentUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval, WriteTimeout: time.Hour}), newFakeWriter(t)
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			serve(k, w, func(rw http.ResponseWriter, _ *http.Request) {
				rw.(http.Flusher).Flush()
				w.read(false)
				time.Sleep(interval + time.Second)
			})
		}()
		time.Sleep(2 * interval)
		require.Equal(t, 1, k.Stats().Streams)
		w.read(true)
		<-returned
		require.Zero(t, k.Stats().Streams)
		require.Equal(t, ": \n\n", w.said())
	})
}

// A reader that takes an interval for each 64 KB of a long event is slow, and alive. It may get a comment before the Flush.
func TestALongEventMayTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval}), newFakeWriter(t)
		w.onWrite = func() { time.Sleep(interval - time.Second) }
		event := "data: " + strings.Repeat("x", 10*piece) + "\n\n"
		serve(k, w, func(w http.ResponseWriter, _ *http.Request) { require.NoError(t, send(w, event)) })
		require.True(t, w.said() == event || w.said() == event+": \n\n")
	})
}

// A write just before the comment blocks for a while. The comment comes right after it, since nothing was flushed.
func TestACommentComesAfterAWriteThatBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval, WriteTimeout: time.Hour}), newFakeWriter(t)
		serve(k, w, func(rw http.ResponseWriter, _ *http.Request) {
			rw.(http.Flusher).Flush()
			w.read(false)
			time.AfterFunc(interval+time.Second, func() { w.read(true) })
			fmt.Fprint(rw, "data: x\n\n")
			time.Sleep(late)
		})
		require.Equal(t, "data: x\n\n: \n\n", w.said())
	})
}

// Many comments that block are many goroutines for a while, and hold up nobody.
func TestOneHundredSlowReadersHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newStreams(t, Config{Interval: interval, WriteTimeout: 5 * interval})
		var wg sync.WaitGroup
		for range 100 {
			w := newFakeWriter(t)
			wg.Go(func() {
				serve(k, w, func(rw http.ResponseWriter, _ *http.Request) {
					rw.(http.Flusher).Flush()
					w.read(false)
					time.Sleep(5 * interval)
				})
			})
		}
		synctest.Wait()
		other := newFakeWriter(t)
		serve(k, other, quietly(interval+1500*time.Millisecond))
		require.Equal(t, ": \n\n", other.said())
		wg.Wait()
		require.EqualValues(t, 100, k.Stats().Slow)
	})
}

func TestAfterThePanicOfAHandlerThereIsNoComment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval}), newFakeWriter(t)
		var kept http.ResponseWriter
		require.PanicsWithValue(t, http.ErrAbortHandler, func() {
			serve(k, w, func(w http.ResponseWriter, _ *http.Request) {
				kept = w
				require.NoError(t, send(w, "data: x\n\n"))
				panic(http.ErrAbortHandler)
			})
		})
		time.Sleep(3 * interval)
		require.Equal(t, "data: x\n\n", w.said())
		require.Zero(t, k.Stats().Streams)

		require.ErrorIs(t, send(kept, "data: too late\n\n"), errReturned)
		require.ErrorIs(t, http.NewResponseController(kept).Flush(), errReturned)
		require.ErrorIs(t, http.NewResponseController(kept).SetWriteDeadline(time.Time{}), errReturned)
		require.Equal(t, "data: x\n\n", w.said())
	})
}

// A middleware's ResponseWriter panics in a comment: its stream has no more of them, and all others go on.
func TestAPanicOfAResponseWriterHarmsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w, other := newStreams(t, Config{Interval: interval}), newFakeWriter(t), newFakeWriter(t)
		var panics atomic.Int32
		w.onWrite = func() { panics.Add(1); panic("mine") }
		var wg sync.WaitGroup
		wg.Go(func() { serve(k, other, quietly(3*interval+time.Second)) })
		serve(k, w, func(rw http.ResponseWriter, _ *http.Request) {
			rw.(http.Flusher).Flush()
			time.Sleep(3*interval + 500*time.Millisecond)
			require.EqualValues(t, 1, panics.Load())
			require.Panics(t, func() { fmt.Fprint(rw, "data: x\n\n") }) // it does not wait
		})
		wg.Wait()
		require.EqualValues(t, 1, k.Stats().Wheel.Panics)
		require.EqualValues(t, 1, k.Stats().Failed)
		require.Equal(t, strings.Repeat(": \n\n", 3), other.said())
	})
}

// The reader is gone: net/http ends the context of the request, and the comments end.
func TestACommentThatFailsIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval}), newFakeWriter(t)
		serve(k, w, func(rw http.ResponseWriter, _ *http.Request) {
			rw.(http.Flusher).Flush()
			require.NoError(t, w.SetWriteDeadline(time.Unix(1, 0)))
			time.Sleep(5 * interval)
			require.ErrorIs(t, send(rw, "data: x\n\n"), os.ErrDeadlineExceeded)
			require.NotErrorIs(t, send(rw, "data: x\n\n"), ErrSlowReader)
		})
		require.EqualValues(t, 1, k.Stats().Failed)
		require.Zero(t, k.Stats().Slow)
	})
}

// A handler sets a deadline before each event, as many do. It has passed when the comment comes.
func TestADeadlineOfTheHandlerIsForItsOwnWrites(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when+" the header", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, w := newStreams(t, Config{Interval: interval}), newFakeWriter(t)
				serve(k, w, func(rw http.ResponseWriter, _ *http.Request) {
					controller := http.NewResponseController(rw)
					if when == "after" {
						rw.(http.Flusher).Flush()
					}
					require.NoError(t, controller.SetWriteDeadline(time.Now().Add(time.Second)))
					require.NoError(t, send(rw, "data: x\n\n"))
					time.Sleep(interval + time.Second)
					require.ErrorIs(t, send(rw, "data: y\n\n"), os.ErrDeadlineExceeded)
					require.NoError(t, controller.SetWriteDeadline(time.Now().Add(time.Second)))
					require.NoError(t, send(rw, "data: z\n\n"))
				})
				require.Equal(t, "data: x\n\n: \n\ndata: z\n\n", w.said())
				require.Zero(t, k.Stats().Failed)
			})
		})
	}
}

// It may set one while a comment is under way: that one holds.
func TestTheLastDeadlineHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval, WriteTimeout: time.Hour}), newFakeWriter(t)
		serve(k, w, func(rw http.ResponseWriter, _ *http.Request) {
			controller := http.NewResponseController(rw)
			require.NoError(t, controller.SetWriteDeadline(time.Now().Add(time.Second)))
			rw.(http.Flusher).Flush()
			w.read(false)
			time.Sleep(interval + time.Second) // a comment blocks
			until := time.Now().Add(time.Minute)
			require.NoError(t, controller.SetWriteDeadline(until))
			w.read(true)
			synctest.Wait()
			require.Equal(t, until, w.deadline)
			require.Equal(t, ": \n\n", w.said())
		})
	})
}

// The end of a response is written after the handler. It has WriteTimeout, since that of the server was lifted.
func TestTheEndOfAStreamIsBounded(t *testing.T) {
	for _, test := range []struct {
		name          string
		config        time.Duration
		server        time.Duration
		own           bool // the handler has a deadline
		lifted, ended bool
	}{
		{"a server with a bound", 0, time.Minute, false, true, true},
		{"a server without", 0, 0, false, false, false}, // the next request would have this deadline
		{"no bound of a write", -1, time.Minute, false, false, false},
		{"a deadline of the handler", 0, time.Minute, true, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, w := newStreams(t, Config{Interval: interval, WriteTimeout: test.config}), newFakeWriter(t)
				srv := &http.Server{WriteTimeout: test.server}
				ctx := context.WithValue(t.Context(), http.ServerContextKey, srv)
				var want []time.Time
				k.Wrap(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
					if test.own {
						want = append(want, time.Now().Add(time.Hour))
						require.NoError(t, http.NewResponseController(rw).SetWriteDeadline(want[0]))
					}
					rw.(http.Flusher).Flush()
					time.Sleep(time.Second)
				})).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
				if test.lifted {
					want = append(want, time.Time{})
				}
				if test.ended {
					want = append(want, time.Now().Add(defaultWriteTimeout))
				}
				require.Equal(t, want, w.deadlines)
			})
		})
	}
}

// After a stall of the process, whose time does not count in the wheel, each stream gets a comment at once.
func TestAStallIsFollowedByComments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w, within := newStreams(t, Config{Interval: interval}), newFakeWriter(t), newFakeWriter(t)
		var wg sync.WaitGroup
		wg.Go(func() { serve(k, w, quietly(5*time.Second)) })
		wg.Go(func() {
			serve(k, within, func(w http.ResponseWriter, _ *http.Request) {
				require.NoError(t, send(w, "data: x"))
				time.Sleep(5 * time.Second)
			})
		})
		time.Sleep(time.Second)
		k.stalled(time.Minute)
		synctest.Wait()
		require.Equal(t, ": \n\n", w.said())
		require.Equal(t, "data: x", within.said())
		wg.Wait()
		require.Equal(t, ": \n\n", w.said())
	})
}

func TestCloseEndsTheComments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := newStreams(t, Config{Interval: interval}), newFakeWriter(t)
		serve(k, w, func(w http.ResponseWriter, _ *http.Request) {
			require.NoError(t, send(w, "data: x\n\n"))
			require.NoError(t, k.Close())
			require.NoError(t, k.Close())
			time.Sleep(3 * interval)
			require.NoError(t, send(w, "data: y\n\n"))
		})
		require.Equal(t, "data: x\n\ndata: y\n\n", w.said())
		require.Zero(t, k.Stats().Streams)
		later := newFakeWriter(t)
		serve(k, later, func(w http.ResponseWriter, _ *http.Request) {
			require.NoError(t, send(w, "data: x\n\n"))
			time.Sleep(3 * interval)
		})
		require.Equal(t, "data: x\n\n", later.said())
	})
}

// The comments of the inner one are the outer one's events.
func TestAHandlerMayBeWrappedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner, w := newStreams(t, Config{Interval: interval, Comment: "outer"}), newStreams(t, Config{Interval: interval / 2}), newFakeWriter(t)
		serve(outer, w, inner.Wrap(quietly(3*interval)).ServeHTTP)
		require.Equal(t, strings.Repeat(": \n\n", 5), w.said())
		require.Zero(t, outer.Stats().Comments)
	})
}

func TestStreamsThatNewHasNotMade(t *testing.T) {
	for _, k := range []*Streams{nil, new(Streams)} {
		require.PanicsWithValue(t, "ssekeepalive: Streams not made by New", func() { k.Wrap(http.NotFoundHandler()) })
		require.NoError(t, k.Close())
		require.Zero(t, k.Stats())
	}
	require.PanicsWithValue(t, "ssekeepalive: Wrap needs a handler", func() { newStreams(t, Config{}).Wrap(nil) })
}

func TestNewRefusesTheImpossible(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Interval -1s, must be between 10ms and 24h0m0s":                                   {Interval: -time.Second},
		"Interval 9ms, must be between 10ms and 24h0m0s":                                   {Interval: 9 * time.Millisecond},
		"Interval 24h0m1s, must be between 10ms and 24h0m0s":                               {Interval: 24*time.Hour + time.Second},
		"WriteTimeout 1ns, must be between 10ms and 24h0m0s, or negative for no bound":     {WriteTimeout: 1},
		"WriteTimeout 24h0m1s, must be between 10ms and 24h0m0s, or negative for no bound": {WriteTimeout: 24*time.Hour + time.Second},
		`Comment "a\nb", must be one line`:                                                 {Comment: "a\nb"},
		`Comment "\r", must be one line`:                                                   {Comment: "\r"},
		"Comment of 4097 bytes, must have at most 4096":                                    {Comment: strings.Repeat("x", 4097)},
	} {
		_, err := New(cfg)
		require.ErrorIs(t, err, ErrArgument)
		require.EqualError(t, err, "ssekeepalive: invalid argument: "+want)
	}
	for _, cfg := range []Config{{}, {Interval: 10 * time.Millisecond}, {Interval: 24 * time.Hour, WriteTimeout: 10 * time.Millisecond}, {WriteTimeout: -1}} {
		require.NoError(t, newStreams(t, cfg).Close())
	}
}
