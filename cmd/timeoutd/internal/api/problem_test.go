package api

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// telling is an engine whose errors name its server, as those of databases do. Some fail a call, and some a task.
type telling struct {
	engine.Engine
	fails *atomic.Bool
}

var errTelling = errors.New("failed to connect to `user=shop database=orders`: 10.0.0.7:5432: connection refused")

func (e telling) Get(context.Context, []timeout.Key) ([]timeout.Task, error) {
	return nil, errTelling
}

func (e telling) Replay(context.Context, []timeout.Key) ([]timeout.Answer, error) {
	return []timeout.Answer{{Err: errTelling}}, nil
}

func (e telling) Topics(ctx context.Context) ([]timeout.Topic, error) {
	if e.fails.Load() {
		return nil, errTelling
	}
	return e.Engine.Topics(ctx)
}

func TestAnErrorOfTheEngineIsForTheLog(t *testing.T) {
	fails, log := new(atomic.Bool), new(bytes.Buffer)
	s := startOn(t, telling{newEngine(t), fails}, Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/a", `{"after":"1h"}`)
	logged := func(times int) {
		t.Helper()
		require.Equal(t, times, strings.Count(log.String(), "user=shop database=orders"))
		require.Equal(t, times, strings.Count(log.String(), "10.0.0.7:5432"))
		log.Reset()
	}
	hidden := func(body string) {
		t.Helper()
		for _, word := range []string{"shop", "orders", "10.0.0.7", "5432"} {
			require.NotContains(t, body, word)
		}
		require.Contains(t, body, "server's log has the reason")
	}
	hidden(s.ask(http.StatusBadGateway, http.MethodGet, "/v1/topics/t/tasks/a", ""))
	logged(1)
	hidden(s.ask(http.StatusOK, http.MethodPost, "/v1/tasks/replay", `{"keys":[{"topic":"t","id":"a"}]}`))
	logged(1)

	fails.Store(true)
	hidden(s.ask(http.StatusOK, http.MethodGet, "/v1/stats", ""))
	s.handler.stats.forget()
	hidden(s.ask(http.StatusOK, http.MethodGet, "/v1/stats", ""))
	logged(1) // however often the page asks
	hidden(s.raw(http.MethodGet, "/v1/topics", "").body)
	logged(1)
	fails.Store(false)
	s.handler.stats.forget()
	require.Empty(t, get[wire.Stats](s, "/v1/stats").Error)
	fails.Store(true)
	s.handler.stats.forget()
	hidden(s.ask(http.StatusOK, http.MethodGet, "/v1/stats", ""))
	logged(1)
}
