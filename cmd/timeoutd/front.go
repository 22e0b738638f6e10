package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	headTimeout  = 10 * time.Second // for the head of a request
	bodyTimeout  = 30 * time.Second // for the whole request
	totalTimeout = 75 * time.Second // for the request and its answer: the engine has 30 s
	idleTimeout  = 90 * time.Second // between two requests

	// silence is how long a connection may do nothing: longer than any request may take.
	silence = 2 * time.Minute

	maxHeader = 32 << 10

	// closeGrace is how long running requests may take at the end.
	closeGrace = 3 * time.Second
)

// front serves HTTP.
type front struct {
	http   *http.Server
	ln     net.Listener
	keeper *keepalive.Keeper // keeps idle connections from keeping others out
}

// newFront listens for handler at addr. A nil secure means no TLS.
func newFront(addr string, handler http.Handler, secure *tls.Config, maxConns int, log *slog.Logger) (*front, error) {
	keeper, err := keepalive.New(keepalive.Config{
		Timeout:  silence,
		Activity: keepalive.ActivityReadWrite,
		Room:     keepalive.Room{MaxConns: maxConns, Full: keepalive.FullEvict},
		Logger:   log,
	})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, errors.Join(err, keeper.Close())
	}
	return &front{keeper: keeper, ln: keeper.Listener(ln), http: &http.Server{
		Handler:           handler,
		TLSConfig:         secure,
		ReadHeaderTimeout: headTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      totalTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// serve serves until close.
func (f *front) serve() error {
	serve := f.http.Serve
	if f.http.TLSConfig != nil {
		serve = func(ln net.Listener) error { return f.http.ServeTLS(ln, "", "") }
	}
	if err := serve(f.ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// close ends the server. Running requests get closeGrace.
func (f *front) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if f.http.Shutdown(ctx) != nil {
		_ = f.http.Close()
	}
	_ = f.keeper.Close()
}
