package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/metrics"
	"github.com/heartwheel-go/heartwheel/server"
)

const (
	// adminTimeout is how long an answer may take: a page is small and its readers are near.
	adminTimeout = 30 * time.Second

	// healthTimeout is how long event loops may take to answer /healthz.
	healthTimeout = 5 * time.Second

	// adminGrace is how long running requests may take at the end.
	adminGrace = time.Second
)

// pages returns all pages, by path. / lists them.
func pages(s *server.Server, page *debughttp.Handler) map[string]http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(
		counter("slow_readers_total", "Connections closed because they did not read their answers.", func() uint64 { return s.Stats().SlowReaders }),
		counter("long_lines_total", "Connections closed because of a line that was too long.", func() uint64 { return s.Stats().LongLines }),
		counter("crowded_total", "Connections refused because too many that were being closed had their descriptors still.", func() uint64 { return s.Stats().Crowded }),
	)
	registry.MustRegister(metrics.New(s.Keeper()))
	return map[string]http.Handler{
		"/debug/wheel": page,
		"/metrics":     promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		"/healthz": check(func(ctx context.Context) error {
			err := s.Health(ctx)
			if errors.Is(err, server.ErrNotRunning) { // not yet, or not any more: no reason to be killed
				return nil
			}
			return err
		}),
		"/readyz": check(func(context.Context) error { return readiness(s) }),
	}
}

// counter is a figure of the server's own.
func counter(name, help string, f func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "echo_heartbeat", Name: name, Help: help},
		func() float64 { return float64(f()) })
}

// readiness returns why the server should get no new connections, or nil.
func readiness(s *server.Server) error {
	switch {
	case s.Draining():
		return errors.New("draining")
	case s.Addr() == nil:
		return errors.New("starting")
	default:
		return nil
	}
}

// check is a page: ok, or 503 and the reason.
func check(f func(ctx context.Context) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := f(ctx); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}

// index lists the pages.
func index(paths []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintln(w, "<!doctype html><title>echo-heartbeat</title><ul>")
		for _, path := range paths {
			fmt.Fprintf(w, "<li><a href=%q>%s</a>\n", path, path)
		}
		fmt.Fprintln(w, "</ul>")
	})
}

// admin serves the pages.
type admin struct {
	http *http.Server
	room *room
	page *debughttp.Handler
	log  *slog.Logger
}

// newAdmin makes the server of the pages on ln, and takes ln over.
func newAdmin(ln net.Listener, s *server.Server, cfg debughttp.Config, log *slog.Logger) (a *admin, err error) {
	a = &admin{log: log}
	defer func() {
		if err != nil {
			a.close()
			_ = ln.Close()
		}
	}()
	if a.page, err = debughttp.New(s.Keeper(), cfg); err != nil {
		return nil, err
	}
	if a.room, err = newRoom(ln); err != nil {
		return nil, err
	}
	handler, err := newHandler(s, a.page, cfg.Hosts)
	if err != nil {
		return nil, err
	}
	a.http = a.room.newServer(handler, slog.NewLogLogger(log.Handler(), slog.LevelDebug))
	log.Info("admin: listening", "addr", ln.Addr().String())
	return a, nil
}

// newHandler returns the handler of all requests. The debug page has a check of its own, and
// -debug-allow-remote turns that off.
func newHandler(s *server.Server, page *debughttp.Handler, hosts debughttp.Hosts) (http.Handler, error) {
	all := pages(s, page)
	checked, mux := http.NewServeMux(), http.NewServeMux()
	checked.Handle("GET /{$}", index(slices.Sorted(maps.Keys(all))))
	for path, handler := range all {
		if handler == page {
			mux.Handle(path, handler)
		} else {
			checked.Handle("GET "+path, handler)
		}
	}
	rest, err := debughttp.CheckHost(checked, hosts)
	if err != nil {
		return nil, err
	}
	mux.Handle("/", rest)
	return mux, nil
}

// serve serves the pages until close.
func (a *admin) serve() {
	if err := a.http.Serve(a.room); !errors.Is(err, http.ErrServerClosed) {
		a.log.Error("admin: stopped", "error", err)
	}
}

// close ends the serving. Running requests get adminGrace.
func (a *admin) close() {
	ctx, cancel := context.WithTimeout(context.Background(), adminGrace)
	defer cancel()
	if a.http != nil && a.http.Shutdown(ctx) != nil {
		_ = a.http.Close()
	}
	if a.room != nil {
		_ = a.room.Close() // if it was not served yet
		_ = a.room.keeper.Close()
	}
	if a.page != nil {
		_ = a.page.Close()
	}
}
