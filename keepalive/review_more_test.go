package keepalive

import (
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// M1. A farewell to a connection that takes no deadlines.
type reviewStuck struct {
	net.Conn
	closed chan struct{}
}

func (s reviewStuck) Write([]byte) (int, error)   { <-s.closed; return 0, net.ErrClosed }
func (s reviewStuck) SetDeadline(time.Time) error { return net.UnknownNetworkError("no deadlines") }
func (s reviewStuck) Close() error {
	defer func() { _ = recover() }()
	close(s.closed)
	return s.Conn.Close()
}

func TestReviewFarewellWithoutDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Timeout: 10 * time.Second, OnClose: c.add, Farewell: func(any, Reason) []byte { return []byte("bye") }})
		a, _ := net.Pipe()
		s := reviewStuck{a, make(chan struct{})}
		k.Conn(s)
		time.Sleep(time.Hour)
		n := len(c.list())
		if n == 0 {
			_ = s.Close()
		}
		synctest.Wait()
		require.Equal(t, 1, n, "FarewellTimeout bounds the farewell")
	})
}

// M2. Reads after the Keeper has ended a connection, CloseHalf: the last bytes of the
// peer go to two readers; a read succeeds.
func TestReviewReadAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second, CloseMode: CloseHalf, FarewellTimeout: 5 * time.Second})
		a, b := net.Pipe()
		conn := k.Conn(deadConn{a})
		got := make(chan error, 1)
		go func() {
			time.Sleep(12 * time.Second)
			for range 20 {
				n, err := conn.Read(make([]byte, 1))
				if n > 0 {
					got <- nil
					return
				}
				if err != nil {
					got <- err
					return
				}
			}
		}()
		go func() {
			time.Sleep(12500 * ms)
			for range 20 {
				_ = b.SetWriteDeadline(time.Now().Add(time.Second))
				_, _ = b.Write([]byte("x"))
			}
		}()
		err := <-got
		time.Sleep(time.Minute)
		_ = conn.Close()
		require.ErrorIs(t, err, ErrIdleTimeout)
	})
}

// M3. Extreme configs.
func TestReviewExtremes(t *testing.T) {
	silly, err := New(Config{Timeout: math.MaxInt64, Tick: math.MaxInt64})
	if err == nil {
		a, _ := net.Pipe()
		if silly.Conn(a); silly.Len() == 0 {
			t.Errorf("accepted, and then its connections are not guarded")
		}
		require.NoError(t, silly.Close())
	}
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: math.MaxInt64, MaxAge: math.MaxInt64, MaxAgeGrace: math.MaxInt64, ReadIdle: math.MaxInt64, WriteIdle: math.MaxInt64,
			FirstMessage: math.MaxInt64, MinBeat: math.MaxInt64, Multiplier: 1e308, Probe: func(any) error { return nil }, Advise: true})
		c, _ := pipe(k)
		_, _, _ = k.Deadline(c)
		d, err := k.SetInterval(c, time.Second)
		require.NoError(t, err)
		require.EqualValues(t, math.MaxInt64, d)
		at, why, ok := k.Deadline(c)
		t.Log(at, why, ok)
		require.True(t, at.After(time.Now().Add(200*365*24*time.Hour)))
		for range 3 {
			time.Sleep(24 * time.Hour)
			k.Touch(c)
		}
		require.Equal(t, 1, k.Len())
		_ = c.Close()
	})
}

// M4. MinRate/MinBeat when updates come more often than windows.
func TestReviewUpdatesPutMinBeatOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: time.Minute, MinBeat: time.Second}
		k := newKeeper(t, cfg)
		c, _ := pipe(k)
		beatEvery(t, k, c, 10*ms)
		for range 100 {
			time.Sleep(9 * time.Second)
			require.NoError(t, k.Update(cfg))
		}
		n := k.Len()
		_ = c.Close()
		require.Zero(t, n, "100 beats a second for 15 minutes")
	})
}

// M5. OnMaxAge after an Update that makes MaxAge longer.
func TestReviewOnMaxAgeIsToldOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := []time.Time{}
		begin := time.Now()
		cfg := Config{Timeout: time.Minute, MaxAge: time.Hour, MaxAgeJitter: -1, MaxAgeGrace: 30 * time.Minute, OnMaxAge: func(any) { told = append(told, time.Now()) }}
		k := newKeeper(t, cfg)
		c, _ := pipe(k)
		beatEvery(t, k, c, 10*time.Second)
		time.Sleep(61 * time.Minute)
		require.Len(t, told, 1)
		cfg.MaxAge = 24 * time.Hour
		require.NoError(t, k.Update(cfg))
		for k.Len() > 0 {
			time.Sleep(time.Minute)
		}
		t.Log("closed after", time.Since(begin), "told", len(told))
		require.Len(t, told, 2, "closed a day later, without the last word")
	})
}

// M6. Turned condemned by an Update.
func TestReviewUpdatesPutTheCondemnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: time.Minute, MaxAge: time.Hour, MaxClosePerSecond: 1}
		k := newKeeper(t, cfg)
		var cs []net.Conn
		for range 60 {
			c, _ := pipe(k)
			cs = append(cs, c)
			beatEvery(t, k, c, time.Second)
		}
		time.Sleep(30 * time.Minute)
		cfg.MaxAge = time.Minute // all are due at once, within a minute
		require.NoError(t, k.Update(cfg))
		begin := time.Now()
		for range 200 {
			time.Sleep(2 * time.Second)
			require.NoError(t, k.Update(cfg))
		}
		n := k.Len()
		t.Log(time.Since(begin), n)
		for _, c := range cs {
			_ = c.Close()
		}
		require.Zero(t, n)
	})
}

// M7. a tick that wraps the mark: silence on an unlucky tick.
func TestReviewFirstMarkComesRoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 5 * time.Minute, FirstMessage: 3 * time.Second})
		c, _ := pipe(k)
		mark := guardOf(c).member.DueTick()
		time.Sleep(50 * ms)
		for { // a beat a second, and then silence from an unlucky tick on
			require.True(t, k.Touch(c))
			if d := guardOf(c).member.DueTick(); d > mark && (d-mark)%0xffff == 0 {
				break
			}
			time.Sleep(100 * ms)
		}
		begin := time.Now()
		for k.Len() > 0 {
			time.Sleep(100 * ms)
		}
		t.Log(k.Stats().Closed)
		require.GreaterOrEqual(t, time.Since(begin), 5*time.Minute)
	})
}
