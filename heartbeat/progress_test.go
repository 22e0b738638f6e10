package heartbeat

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/tcpsocket"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// coarse is the tick of the wheels here: hours take few of them.
const coarse = time.Second

// kernel is what a socket would tell.
type kernel struct {
	mute         atomic.Bool // does not tell
	rest         atomic.Bool // all has been acknowledged
	acknowledged atomic.Uint64
	written      atomic.Uint64 // when the last beat was written
}

// newTold returns a Beater and the kernel of all its connections.
func newTold(t *testing.T) (*Beater, *kernel) {
	b, k := newBeater(t, Config{Tick: coarse}), new(kernel)
	k.acknowledged.Store(1)
	b.wheel.Stop()
	var err error
	b.wheel, err = wheel.NewOf(wheel.Config{Tick: coarse, OnStall: b.stalled}, wheel.Funcs[*beat]{
		Due: func(_ *wheel.TimerOf[*beat], x *beat) {
			s := x.look()
			if s.tells = !k.mute.Load(); s.tells {
				s.sent = tcpsocket.Sent{Acknowledged: k.acknowledged.Load(), Pending: !k.rest.Load()}
			}
			x.mu.Lock()
			x.written = k.written.Load()
			x.mu.Unlock()
			x.act(s)
		},
		Limit: (*beat).limit,
	})
	require.NoError(t, err)
	return b, k
}

// stuck begins a Write that nobody takes.
func stuck(t *testing.T, b *Beater, opts Options) (c *Conn, there net.Conn, written <-chan error) {
	here, there := net.Pipe()
	opts.Message = []byte("PING\n")
	c, err := b.Start(here, opts)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, 1000))
		ended <- err
	}()
	t.Cleanup(func() {
		c.Close()
		there.Close()
	})
	return c, there, ended
}

func TestAWriteLastsAsLongAsTheServerAcknowledges(t *testing.T) {
	for _, answer := range []Answer{AnswerNone, AnswerRead, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, k := newTold(t)
				c, _, written := stuck(t, b, Options{Timeout: 30 * time.Second, Answer: answer})
				for range 20 {
					time.Sleep(29 * time.Second)
					k.acknowledged.Add(1)
				}
				require.NoError(t, c.Err())
				last := time.Now()
				err := <-written
				require.ErrorIs(t, err, ErrNoAnswer)
				require.ErrorContains(t, err, "the server acknowledged nothing of a Write within 30s")
				require.GreaterOrEqual(t, time.Since(last), 30*time.Second)
				require.LessOrEqual(t, time.Since(last), 30*time.Second+c.Interval()+3*coarse, "the next look is in an interval")
				require.ErrorIs(t, c.Err(), ErrNoAnswer)
				require.Zero(t, b.Stats().Beats)
				require.EqualValues(t, 1, b.Stats().Unanswered)
			})
		})
	}
}

// A Write to a layer may wait for something else than the server.
func TestAWriteThatTheServerOwesNothingToLasts(t *testing.T) {
	for name, set := range map[string]func(*kernel){
		"no socket tells":        func(k *kernel) { k.mute.Store(true) },
		"nothing to acknowledge": func(k *kernel) { k.rest.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, k := newTold(t)
				set(k)
				c, _, _ := stuck(t, b, Options{Timeout: 30 * time.Second, Answer: AnswerAck})
				time.Sleep(10 * time.Minute)
				require.NoError(t, c.Err())
			})
		})
	}
}

// A server may talk before it takes more.
func TestWhatIsHeardDuringAWriteIsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newTold(t)
		c, there, written := stuck(t, b, Options{Timeout: 30 * time.Second, Answer: AnswerRead})
		ended := reader(c)
		for range 20 {
			time.Sleep(20 * time.Second)
			_, err := there.Write([]byte("news\n"))
			require.NoError(t, err)
		}
		last := time.Now()
		require.ErrorIs(t, <-written, ErrNoAnswer)
		require.GreaterOrEqual(t, time.Since(last), 30*time.Second-coarse)
		require.ErrorIs(t, <-ended, ErrNoAnswer)
	})
}

func TestAWriteThatEndsInTimeLeavesNoDeadline(t *testing.T) {
	for _, answer := range []Answer{AnswerNone, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := newTold(t)
				c, there, written := stuck(t, b, Options{Timeout: 30 * time.Second, Interval: 10 * time.Second, Answer: answer})
				reader(c)
				time.Sleep(29 * time.Second)
				s := &peer{Conn: there, answer: pong}
				ended := make(chan struct{})
				go func() {
					_, _ = there.Read(make([]byte, 1000))
					s.run()
					close(ended)
				}()
				require.NoError(t, <-written)
				begin := time.Now()
				time.Sleep(10 * time.Minute)
				require.NoError(t, c.Err())
				all := gaps(begin, s.heard("PING"))
				require.LessOrEqual(t, all[0], 10*time.Second+2*coarse)
				for i, gap := range all[1:] {
					require.GreaterOrEqual(t, gap, 10*time.Second, "beat %d", i)
					require.LessOrEqual(t, gap, 10*time.Second+2*coarse, "beat %d", i)
				}
				c.Close()
				<-ended
			})
		})
	}
}

// The stall is long enough for any timeout.
func TestAStallDoesNotCountAgainstAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, k := newTold(t)
		c, _, _ := stuck(t, b, Options{Timeout: 30 * time.Second, Answer: AnswerAck})
		time.Sleep(25 * time.Second)
		b.stalled(time.Hour) // all are looked at
		time.Sleep(2 * time.Second)
		require.NoError(t, c.Err())
		k.acknowledged.Add(1)
		time.Sleep(29 * time.Second)
		require.NoError(t, c.Err())
	})
}

// The beat is behind bytes of the user's.
func TestABeatBehindBytesThatTheServerTakesIsLate(t *testing.T) {
	for _, answer := range []Answer{AnswerRead, AnswerAck} {
		t.Run("answer="+answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, k := newTold(t)
				c, s := start(t, b, Options{Interval: 10 * time.Second, Answer: answer, AckTimeout: 3 * time.Second}, nil)
				k.written.Store(1000)
				for len(s.heard("PING")) == 0 {
					time.Sleep(coarse)
				}
				for range 100 {
					time.Sleep(2 * time.Second)
					k.acknowledged.Add(1)
				}
				require.NoError(t, c.Err(), "it goes on taking them")
				k.acknowledged.Store(1000)
				last := time.Now()
				<-c.Done()
				require.ErrorContains(t, c.Err(), "no answer to a beat within 3s")
				require.LessOrEqual(t, time.Since(last), 3*time.Second+2*coarse, "it has the beat")
				require.Greater(t, len(s.heard("PING")), 15, "and others meanwhile")
			})
		})
	}
}
