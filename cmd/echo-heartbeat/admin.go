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
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/metrics"
	"github.com/heartwheel-go/heartwheel/pool"
	"github.com/heartwheel-go/heartwheel/server"
)

const (
	// A page is small and its readers are near.
	adminTimeout = 30 * time.Second

	// adminConns leaves the descriptors to the connections.
	adminConns = 16

	// healthTimeout is how long event loops may take to answer /healthz.
	healthTimeout = 3 * time.Second

	// adminGrace is how long requests may take that run at the end.
	adminGrace = time.Second
)

// pages are what there is, by path. / lists them.
func pages(s *server.Server, page *debughttp.Handler) (map[string]http.Handler, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(
		counter("slow_readers_total", "Connections closed because they did not read their answers.", func() uint64 { return s.Stats().SlowReaders }),
		counter("long_lines_total", "Connections closed because of a line that was too long.", func() uint64 { return s.Stats().LongLines }),
		counter("crowded_total", "Connections refused because too many that were being closed had their descriptors still.", func() uint64 { return s.Stats().Crowded }),
	)
	if _, err := metrics.Register(registry, s.Keeper()); err != nil {
		return nil, err
	}
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
	}, nil
}

// counter is a figure of the server's own.
func counter(name, help string, f func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "echo_heartbeat", Name: name, Help: help},
		func() float64 { return float64(f()) })
}

// readiness returns why the server is not to get new connections.
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

// check is a page that says ok, or 503 and why not.
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
	http   *http.Server
	ln     net.Listener
	keeper *keepalive.Keeper // so that readers that stay don't keep others out
	page   *debughttp.Handler
	log    *slog.Logger
}

// newAdmin makes what serves the pages on ln, and takes it over.
func newAdmin(ln net.Listener, s *server.Server, cfg debughttp.Config, log *slog.Logger) (a *admin, err error) {
	a = &admin{ln: ln, log: log}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.page, err = debughttp.New(s.Keeper(), cfg); err != nil {
		return nil, err
	}
	// Nothing is life, so the one that has been there for longest gives way: a trickle of
	// bytes helps nobody to stay.
	a.keeper, err = keepalive.New(keepalive.Config{
		Timeout:  adminTimeout,
		Activity: keepalive.ActivityManual,
		Room:     keepalive.Room{MaxConns: adminConns, Full: pool.EvictIdlest},
	})
	if err != nil {
		return nil, err
	}
	a.ln = a.keeper.Listener(ln)
	all, err := pages(s, a.page)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for path, page := range all {
		mux.Handle("GET "+path, page)
	}
	mux.Handle("GET /{$}", index(slices.Sorted(maps.Keys(all))))
	a.http = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: adminTimeout / 3,
		ReadTimeout:       adminTimeout / 3,
		WriteTimeout:      adminTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	// A connection for each request, so that as many as like can watch /debug/wheel and
	// there is room for whoever asks /healthz.
	a.http.SetKeepAlivesEnabled(false)
	log.Info("admin: listening", "addr", ln.Addr().String())
	return a, nil
}

// serve serves until close.
func (a *admin) serve() {
	if err := a.http.Serve(a.ln); !errors.Is(err, http.ErrServerClosed) {
		a.log.Error("admin: stopped", "error", err)
	}
}

// close ends it. Requests that run get a moment.
func (a *admin) close() {
	ctx, cancel := context.WithTimeout(context.Background(), adminGrace)
	defer cancel()
	if a.http != nil && a.http.Shutdown(ctx) != nil {
		_ = a.http.Close()
	}
	_ = a.ln.Close() // where it was not served yet
	if a.keeper != nil {
		_ = a.keeper.Close()
	}
	if a.page != nil {
		_ = a.page.Close()
	}
}
