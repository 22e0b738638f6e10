package keepalive

import (
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// A visit may call the user, and then decides once more. This program may have been too slow to read all the same.
func TestBytesUnreadBeforeAVisitAreSoUntilItsEnd(t *testing.T) {
	k := newKeeper(t, Config{})
	c, peer := pipe(k)
	defer peer.Close()
	v := &visit{Guard: Of(c)}
	v.decide() // of a new connection, touched
	v.setFlag(flagUnread, true)
	v.decide()
	v.decide()
	require.True(t, v.seen.Unread)
}

// The peer was heard between the decision and its end.
func TestAnEndThatComesTooLateLeavesNothing(t *testing.T) {
	k := newKeeper(t, Config{})
	c, peer := pipe(k)
	defer peer.Close()
	v := &visit{Guard: Of(c), policy: k.policy.Load()}
	v.apply(rules.Outcome{Do: rules.Close, Why: rules.Idle})
	require.True(t, v.done)
	require.Zero(t, v.reason(), "or Close would leave it to the Keeper")
	require.Zero(t, k.unclosed.Load(), "or a drain would never end")
	require.Equal(t, 1, k.Len())
	v.end(rules.Outcome{Do: rules.Close, Why: rules.Idle, Anyway: true})
	require.Zero(t, k.Len(), "touched or not")
	require.Zero(t, k.unclosed.Load())
}

// A request began between the decision and its end. The peer may have said nothing that counts before it, as in a handshake.
func TestAnEndOfAConnectionHeldMeanwhileIsVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second, Activity: ActivityManual})
		c, peer := pipe(k)
		defer peer.Close()
		v := &visit{Guard: Of(c)}
		require.True(t, v.enter())
		time.Sleep(1100 * ms)
		out := v.decide()
		require.Equal(t, rules.Close, out.Do)
		release := v.Hold()
		v.apply(out)
		require.True(t, v.done)
		require.True(t, v.isOpen(), "it is held")
		if v.leave() {
			v.due()
		}
		time.Sleep(time.Minute)
		require.True(t, v.isOpen(), "it is held")
		release()
		requireClosed(t, k, c, ReasonIdle, time.Now(), time.Second)
	})
}

// An exchange began between the decision and its end, or bytes of it have come. The end between two exchanges comes too
// late for it, and any other end once more.
func TestAnEndOfAConnectionWithAnExchangeMeanwhileIsVoid(t *testing.T) {
	for name, begin := range map[string]func(g *Guard){
		"an exchange": func(g *Guard) { g.Binding().Exchange(true) },
		"bytes":       func(g *Guard) { g.came() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, Config{Timeout: time.Hour})
				c, peer := pipe(k)
				defer peer.Close()
				v := &visit{Guard: Of(c)}
				v.Binding().Exchanges(func() {}, nil)
				v.setFlag(flagBegins, true)
				require.True(t, v.enter())
				v.dismiss(ReasonDrain, toDrain)
				time.Sleep(lastWord + 100*ms)
				out := v.decide()
				require.Equal(t, rules.Close, out.Do)
				begin(v.Guard)
				v.apply(out)
				require.True(t, v.isOpen())
				require.True(t, v.leave())
				v.due()
				time.Sleep(lastWord)
				require.True(t, v.isOpen())
				v.condemn(ReasonDrain)
				time.Sleep(100 * ms) // a visit under way may wait for the next tick before it decides anew
				synctest.Wait()
				require.False(t, v.isOpen())
			})
		})
	}
}

// The peer was heard between the decision and its end, and the connection is due again, for another reason.
func TestAnEndForASilenceThatIsOverIsVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second, Activity: ActivityManual})
		c, peer := pipe(k)
		defer peer.Close()
		v := &visit{Guard: Of(c)}
		require.True(t, v.enter())
		time.Sleep(1100 * ms)
		out := v.decide()
		require.Equal(t, rules.Close, out.Do)
		require.NoError(t, k.Update(Config{Timeout: 2 * time.Second, Activity: ActivityManual}))
		touched := time.Now()
		require.True(t, Touch(c))
		time.Sleep(50 * ms)
		require.True(t, v.timer.IsDue(), "since the config has changed")
		v.apply(out)
		require.True(t, v.done)
		require.True(t, v.isOpen())
		require.True(t, v.leave())
		v.due()
		requireClosed(t, k, c, ReasonIdle, touched, 2*time.Second)
	})
}

// What the socket said before a touch says nothing about the silence after it.
func TestTheSocketIsAskedAgainAfterATouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second, Tick: 10 * ms})
		c, peer := pipe(k)
		defer peer.Close()
		v := &visit{Guard: Of(c)}
		require.True(t, v.enter())
		time.Sleep(1100 * ms)
		v.looked, v.now = true, k.now()
		v.seen.Socket, v.report = v.look()
		require.True(t, Touch(c))
		time.Sleep(1100 * ms)
		require.Equal(t, rules.Wait, v.decide().Do, "that silence is for another visit")
		another := &visit{Guard: v.Guard}
		require.Equal(t, rules.Close, another.decide().Do)
	})
}

// The idlest connection was touched before the decision about it, and is due again, for another reason.
func TestATouchSavesFromAnEvictionThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: time.Minute, Tick: 10 * ms, Activity: ActivityManual, Room: Room{MaxConns: 1, Full: FullEvict, MinIdle: 200 * ms}}
		k := newKeeper(t, cfg)
		c, peer := pipe(k)
		defer peer.Close()
		g := Of(c)
		require.True(t, g.enter(), "the next visit has to wait")
		time.Sleep(500 * ms)
		_, newcomer := pipe(k)
		defer newcomer.Close()
		synctest.Wait()
		require.True(t, g.state().Evicted)
		cfg.Timeout = 2 * time.Minute
		require.NoError(t, k.Update(cfg))
		require.True(t, Touch(c))
		time.Sleep(50 * ms)
		require.True(t, g.timer.IsDue())
		require.True(t, g.leave())
		g.due()
		synctest.Wait()
		require.True(t, g.isOpen())
		require.False(t, g.state().Evicted)
	})
}

// The peer answers a probe that OnIdle has asked for, while Send is still running. By then the connection is due
// again.
func TestAnAnswerDuringSendIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{
			Timeout: 10 * time.Second, Tick: 10 * ms, Activity: ActivityManual, ReadIdle: time.Second,
			Probe: Probing{After: 5 * time.Second, Timeout: 300 * ms, Count: 1, Send: func(conn any) error {
				time.Sleep(5 * ms)
				Touch(conn)
				time.Sleep(50 * ms)
				return nil
			}},
			OnIdle: func(any, Reason) Verdict { return Probe },
		})
		_, peer := pipe(k)
		defer peer.Close()
		time.Sleep(5 * time.Second)
		require.Empty(t, k.Stats().Closed)
	})
}

// OnIdle takes so long that the silence is over, and the next one, too.
func TestAnAnswerIsForTheSilenceInTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		k := newKeeper(t, Config{
			Timeout: time.Minute, Tick: 10 * ms, ReadIdle: time.Second,
			OnIdle: func(any, Reason) Verdict {
				if asked++; asked > 1 {
					return Ignore
				}
				time.Sleep(2500 * ms)
				return Close
			},
		})
		c, peer := pipe(k)
		defer peer.Close()
		go func() {
			time.Sleep(1500 * ms)
			_, _ = peer.Write([]byte("x"))
		}()
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.Empty(t, k.Stats().Closed)
		require.Equal(t, 2, asked)
	})
}

// OnIdle writes, and takes longer than WriteIdle. Its answer is for the connection as it knows it.
func TestAnAnswerOutlastsTheWriteOfTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		k := newKeeper(t, Config{Timeout: 5 * time.Second, Tick: 10 * ms, WriteIdle: time.Second, OnIdle: func(conn any, _ Reason) Verdict {
			asked++
			time.Sleep(ms)
			_, _ = conn.(net.Conn).Write([]byte("x"))
			time.Sleep(1500 * ms)
			return Close
		}})
		c, peer := pipe(k)
		defer peer.Close()
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		requireClosed(t, k, c, ReasonWriteIdle, time.Now(), time.Second+1501*ms)
		require.Equal(t, 1, asked)
	})
}

// OnIdle takes longer than ReadIdle each time, and bytes come meanwhile that are no life. The timeout has its say.
func TestSlowQuestionsDoNotKeepADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{
			Timeout: 5 * time.Second, Tick: 10 * ms, Activity: ActivityManual, ReadIdle: time.Second,
			OnIdle: func(any, Reason) Verdict { time.Sleep(1500 * ms); return Close },
		})
		c, peer := pipe(k)
		var writing sync.WaitGroup
		defer writing.Wait()
		defer peer.Close()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		writing.Go(func() {
			for err := error(nil); err == nil; time.Sleep(1300 * ms) {
				_, err = peer.Write([]byte("x"))
			}
		})
		for begun := time.Now(); k.Len() > 0; time.Sleep(100 * ms) {
			require.Less(t, time.Since(begun), time.Minute)
		}
	})
}

// Bytes are read while Send is running. It was slow, and the next look at ReadIdle comes at its end.
func TestBytesDuringSendAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{
			Timeout: 10 * time.Second, Tick: 10 * ms, Activity: ActivityManual, ReadIdle: time.Second,
			Probe: Probing{After: 800 * ms, Timeout: 300 * ms, Count: 1, Send: func(any) error { time.Sleep(600 * ms); return nil }},
		})
		c, peer := pipe(k)
		defer peer.Close()
		go func() {
			time.Sleep(900 * ms)
			_, _ = peer.Write([]byte("x"))
		}()
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		time.Sleep(520 * ms)
		require.Zero(t, k.Stats().Closed[ReasonReadIdle])
	})
}

func TestTheContextIsDoneBeforeTheFarewell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := false
		k := newKeeper(t, Config{Timeout: time.Second, Closing: Closing{Farewell: func(conn any, _ Reason) []byte {
			said = Of(conn).Context().Err() != nil
			return nil
		}}})
		c, peer := pipe(k)
		defer peer.Close()
		require.NoError(t, Of(c).Context().Err())
		requireClosed(t, k, c, ReasonIdle, time.Now(), time.Second)
		require.True(t, said)
	})
}

func TestWhatADecisionSaysIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		k := newKeeper(t, Config{Logger: log.Logger(slog.LevelDebug)})
		c, peer := pipe(k)
		defer peer.Close()
		v := &visit{Guard: Of(c), policy: k.policy.Load()}
		v.count(rules.Outcome{})
		require.Zero(t, k.Stats().Spared)
		v.count(rules.Outcome{Spared: true})
		require.EqualValues(t, 1, k.Stats().Spared)
		var would rules.Outcome
		would.Would[rules.Idle] = true
		v.count(would)
		require.Equal(t, map[Reason]uint64{ReasonIdle: 1}, k.Stats().WouldClose)
		require.Len(t, log.Lines("would close"), 1)
		require.Empty(t, k.Stats().Closed)

		slow := func() int {
			v.count(rules.Outcome{Slow: true})
			return len(log.Lines("so_far"))
		}
		time.Sleep(time.Second)
		require.Equal(t, 1, slow())
		time.Sleep(time.Minute - ms)
		require.Equal(t, 1, slow(), "once a minute")
		time.Sleep(ms)
		require.Equal(t, 2, slow())
		require.Len(t, log.Lines("so_far=3"), 1)
	})
}

func TestRefusalsAreCountedByTheirReason(t *testing.T) {
	k := newKeeper(t, Config{})
	k.countRefused(errPerKey)
	for range 2 {
		k.countRefused(ReasonFull)
	}
	for range 3 {
		k.countRefused(ReasonDrain)
	}
	s := k.Stats()
	require.Equal(t, []uint64{1, 2, 3}, []uint64{s.RefusedPerKey, s.RefusedFull, s.RefusedDrain})
}

func TestReasonsKnowWhetherToComeBack(t *testing.T) {
	all := Reasons()[:reasons-1] // and then come the checks
	require.Equal(t, ReasonPeer, all[0])
	require.Equal(t, reasons-1, all[len(all)-1])
	require.Equal(t, "keepalive: Reason(0)", Reason(0).Error())
	require.Equal(t, "keepalive: "+endOfAll.String(), endOfAll.Error())
	require.False(t, Reason(0).Retryable())
	require.False(t, endOfAll.Retryable())
	require.False(t, ReasonLocal.Retryable())
	require.True(t, ReasonPeer.Retryable())
	require.True(t, (reasons - 1).Retryable())
}

func TestPressureIsMeasuredOnceASecondAndAfterAnUpdate(t *testing.T) {
	asked := 0
	cfg := Config{Timeout: time.Minute, Room: Room{Pressure: Pressure{Used: func() float64 { asked++; return 0 }}}}
	k := newKeeper(t, cfg)
	require.Equal(t, 15*time.Second, k.Config().Room.Pressure.Timeout)
	measured := func(now time.Duration) int {
		k.pressure(k.policy.Load(), now)
		return asked
	}
	require.Equal(t, 1, measured(time.Hour))
	require.Equal(t, 1, measured(time.Hour+time.Second-1))
	require.Equal(t, 2, measured(time.Hour+time.Second))
	require.NoError(t, k.Update(cfg))
	require.Equal(t, 3, measured(time.Hour+time.Second))
}
