package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

func TestNobodyWaitsForTheReaderOfTheEvents(t *testing.T) {
	var out blocked
	out.free.Lock()
	j := newJournal(&out, slog.New(slog.DiscardHandler))
	for i := range 10_000 {
		j.add(Event{Name: "online", Session: fmt.Sprint(i)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	told := j.add(Event{Name: "offline"})
	require.ErrorIs(t, told.await(ctx), context.DeadlineExceeded)
	out.free.Unlock()
	require.NoError(t, told.await(t.Context()))
	j.add(Event{Name: "end"})
	j.close()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 10_002)
	require.Equal(t, `{"event":"online","session":"9999"}`, lines[9999])
	require.Equal(t, `{"event":"end"}`, lines[10_001])
}

func TestAnEventThatIsNotWrittenIsNotTold(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	defer w.Close()
	j := newJournal(w, slog.New(slog.DiscardHandler))
	err = j.add(Event{Name: "offline"}).await(t.Context())
	require.Error(t, err)
	require.False(t, errors.Is(err, context.Canceled))
	j.close()
}

// unreadable is a writer without a reader until a channel is closed.
type unreadable struct{ until chan struct{} }

func (u unreadable) Write(p []byte) (int, error) {
	<-u.until
	return len(p), nil
}

func TestNobodyReadsTheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		out := unreadable{make(chan struct{})}
		j := newJournal(out, slog.New(slog.NewTextHandler(&log, nil)))
		first := j.add(Event{Name: "offline"})
		synctest.Wait() // it is being written
		long := Event{Name: "online", Session: strings.Repeat("s", 1<<20)}
		for range 2 * unread >> 20 {
			j.add(long)
		}
		require.Less(t, len(j.lines), unread)
		require.Greater(t, len(j.lines), unread-2<<20)
		require.ErrorIs(t, j.add(long).await(t.Context()), errUnread, "somebody else has to tell it")
		require.Len(t, log.Lines("events are lost"), 1)

		began := time.Now()
		j.close()
		require.Equal(t, parting, time.Since(began))
		require.Len(t, log.Lines("the last events are lost"), 1)
		close(out.until)
		<-j.done
		require.NoError(t, first.await(t.Context()))
		require.Len(t, log.Lines("events are read again"), 1)
	})
}

// A gateway can be ended even if nobody reads its events.
func TestAGatewayEndsThoughNobodyReadsItsEvents(t *testing.T) {
	t.Parallel()
	n := newNodes(t)
	out := unreadable{make(chan struct{})}
	defer close(out.until)
	ctx, end := context.WithCancel(t.Context())
	var log logtest.Log
	exit := make(chan int, 1)
	go func() {
		exit <- Main(ctx, []string{
			"-redis", n.redis.URL, "-prefix", n.prefix, "-log-format", "json",
			"-lease", "9s", "-renew", "1800ms", "-redis-timeout", "2s",
		}, out, &log)
	}()
	log.Await(t, "gateway: open")
	g := running{addr: log.Await(t, `"server: listening","addr":"([^"]+)"`)}
	g.dial(t).welcome(t, "s", "new")
	c := g.dial(t)
	c.welcome(t, "t", "new")
	require.Equal(t, "BYE", c.ask(t, "QUIT"))
	watcher := n.watcher(t)
	require.Eventually(t, func() bool { // its end is about to be told
		count, err := watcher.Count(t.Context())
		return err == nil && count == 1
	}, late, 5*time.Millisecond)
	end()
	select {
	case code := <-exit:
		require.Zero(t, code)
	case <-time.After(late):
		t.Fatal("it does not end")
	}
}
