package gnetkeepalive

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestFirstMessage(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		for _, activity := range activities() {
			t.Run(network+"/"+activity.String(), func(t *testing.T) {
				t.Parallel()
				w := observeOn(t, addrOn(t, network), keepalive.Config{
					Timeout: time.Minute, Tick: 10 * ms, FirstMessage: timeout, Activity: activity,
				}, &app{onOpen: func(gnet.Conn) ([]byte, gnet.Action) { return []byte("welcome"), gnet.None }})
				talks := w.dial(t)
				say2(t, talks, "welcome", "hello")
				begin := time.Now()
				mute := w.dial(t)
				got, err := io.ReadAll(mute)
				require.NoError(t, err)
				require.Equal(t, "welcome", string(got), "which counts for nothing")
				require.GreaterOrEqual(t, time.Since(begin), timeout)
				w.requireEnd(t, mute, keepalive.ReasonFirstMessage)
				time.Sleep(timeout)
				say(t, talks, "still here")
			})
		}
	}
}

// say2 is say after a greeting.
func say2(t testing.TB, c net.Conn, greeting, word string) {
	t.Helper()
	buf := make([]byte, len(greeting))
	_, err := io.ReadFull(c, buf)
	require.NoError(t, err)
	require.Equal(t, greeting, string(buf))
	say(t, c, word)
}

// activities are all with bytes as life, and without writes.
func activities() []keepalive.Activity {
	both := []keepalive.Activity{keepalive.ActivityRead}
	if (keepalive.Config{Activity: keepalive.ActivityKernel}).Validate() == nil {
		both = append(both, keepalive.ActivityKernel)
	}
	return both
}

// A peer commands the Keeper: the handler does what it says, within OnTraffic.
func commands(a *app) *app {
	a.onTraffic = func(c gnet.Conn) gnet.Action {
		buf, _ := c.Next(-1)
		word := string(buf)
		switch verb, arg, _ := strings.Cut(word, " "); verb {
		case "timeout", "interval":
			d, _ := time.ParseDuration(arg)
			set := keepalive.Of(c).SetTimeout
			if verb == "interval" {
				set = keepalive.Of(c).SetInterval
			}
			d, err := set(d)
			word = d.String()
			if err != nil {
				word = err.Error()
			}
		case "pong":
			if _, ok := keepalive.Of(c).Pong(); !ok {
				word = "gone"
			}
		case "deadline":
			at, why, _ := keepalive.Of(c).Deadline()
			word = why.String() + " " + time.Until(at).Round(time.Second).String()
		case "close":
			return gnet.Close
		}
		_, _ = c.Write([]byte(word))
		return gnet.None
	}
	return a
}

// ask sends a command and returns the answer.
func ask(t testing.TB, c net.Conn, command string) string {
	t.Helper()
	_, err := c.Write([]byte(command))
	require.NoError(t, err)
	buf := make([]byte, 200)
	n, err := c.Read(buf)
	require.NoError(t, err)
	return string(buf[:n])
}

func TestTimeoutsOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := observe(t, keepalive.Config{
		Timeout:  8 * time.Second,
		Tick:     10 * ms,
		Interval: keepalive.Interval{Min: 2 * time.Second, Max: time.Minute},
	}, commands(&app{}), gnet.WithNumEventLoop(2))
	longer, shorter, interval, none := w.dial(t), w.dial(t), w.dial(t), w.dial(t)
	require.Equal(t, "11s", ask(t, longer, "timeout 11s"))
	require.Equal(t, "2s", ask(t, shorter, "timeout 1ms"), "clamped")
	require.Equal(t, "4.5s", ask(t, interval, "interval 3s"), "1.5 times that")
	require.Equal(t, "1m0s", ask(t, none, "interval 2540400h"), "no overflow")
	require.Equal(t, "8s", ask(t, none, "interval 0s"))
	require.Equal(t, "keepalive: invalid argument: timeout 0s, must be positive", ask(t, none, "timeout 0s"))
	require.Equal(t, "idle 8s", ask(t, none, "deadline"))

	var wg sync.WaitGroup
	for c, d := range map[net.Conn]time.Duration{
		longer: 11 * time.Second, shorter: 2 * time.Second, interval: 4500 * ms, none: 8 * time.Second,
	} {
		wg.Go(func() {
			last := time.Now()
			_, err := c.Write([]byte("x"))
			if _, err2 := io.Copy(io.Discard, c); errors.Join(err, err2) != nil {
				t.Error(err, err2)
			}
			if lived := time.Since(last); lived < d || lived > d+eternal/4 {
				t.Errorf("%v: %v", d, lived)
			}
		})
	}
	wg.Wait()
	order := []time.Time{}
	for _, c := range []net.Conn{shorter, interval, none, longer} {
		order = append(order, w.requireEnd(t, c, keepalive.ReasonIdle))
	}
	for i := range order[1:] {
		require.Less(t, order[i], order[i+1])
	}
}

// The server is busy with a request for longer than the timeout. The peer waits.
func TestHeldWhileTheServerWorks(t *testing.T) {
	t.Parallel()
	for _, activity := range activities() {
		t.Run(activity.String(), func(t *testing.T) {
			t.Parallel()
			a, released := &app{}, make(chan time.Time, 1)
			a.onTraffic = func(c gnet.Conn) gnet.Action {
				_, _ = c.Discard(-1)
				release := keepalive.Of(c).Hold()
				go func() {
					time.Sleep(2 * timeout)
					_ = c.AsyncWrite([]byte("done"), nil)
					released <- time.Now()
					release()
					release() // once more does nothing
				}()
				return gnet.None
			}
			w := observe(t, keepalive.Config{Activity: activity}, a)
			c := w.dial(t)
			_, err := c.Write([]byte("a lot of work"))
			require.NoError(t, err)
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Equal(t, "done", string(got))
			require.GreaterOrEqual(t, w.requireEnd(t, c, keepalive.ReasonIdle).Sub(<-released), timeout)
		})
	}
}

// However often it is touched.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	for _, activity := range append(activities(), keepalive.ActivityManual) {
		const age, grace = timeout, 100 * ms
		a := &app{}
		a.onTraffic = func(c gnet.Conn) gnet.Action {
			keepalive.Touch(c)
			_, _ = c.Discard(-1)
			return gnet.None
		}
		w := observe(t, keepalive.Config{
			Timeout:  timeout,
			Tick:     10 * ms,
			Activity: activity,
			Age:      keepalive.Age{Max: age, Jitter: -1, Grace: grace, OnMax: func(conn any) { _, _ = conn.(gnet.Conn).Write([]byte("soon")) }},
			Closing:  keepalive.Closing{Farewell: sayBye, Mode: keepalive.CloseHalf},
		}, a, gnet.WithNumEventLoop(2))
		begin := time.Now()
		c := w.dial(t)
		stop := make(chan bool)
		var talker sync.WaitGroup
		talker.Go(func() {
			for {
				_, _ = c.Write([]byte("beat"))
				select {
				case <-stop:
					return
				case <-time.After(10 * ms):
				}
			}
		})
		buf := make([]byte, 4)
		_, err := io.ReadFull(c, buf)
		require.NoError(t, err)
		require.Equal(t, "soon", string(buf))
		require.GreaterOrEqual(t, time.Since(begin), age)
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, bye, string(got), "although it is still sending")
		require.GreaterOrEqual(t, time.Since(begin), age+grace)
		require.Less(t, time.Since(begin), eternal/4)
		close(stop)
		talker.Wait()
		c.Close()
		w.requireEnd(t, c, keepalive.ReasonMaxAge)
	}
}

func TestAgesDiffer(t *testing.T) {
	t.Parallel()
	const age = 8 * time.Second
	w := observe(t, keepalive.Config{Timeout: time.Minute, Tick: 10 * ms, Age: keepalive.Age{Max: age, Jitter: 0.75}}, &app{})
	begin := time.Now()
	conns := make([]net.Conn, 60)
	for i := range conns {
		conns[i] = w.dial(t)
	}
	opened := time.Now()
	first, last := time.Hour, time.Duration(0)
	for _, c := range conns {
		requireClosed(t, c)
		at := w.requireEnd(t, c, keepalive.ReasonMaxAge)
		first, last = min(first, at.Sub(begin)), max(last, at.Sub(opened))
	}
	require.GreaterOrEqual(t, first, age/4)
	require.Less(t, first, age*3/4, "of 60 the youngest is not over 3/4, or once in 10^10 runs")
	require.Greater(t, last, age/4+age/8, "nor is the oldest of all near the youngest")
}
