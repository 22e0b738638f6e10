//go:build interop && unix

package main

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The databases can be behind a pooler. Nobody can listen through that.
func TestItListensWhereItIsTold(t *testing.T) {
	for _, count := range []int{1, 2} {
		var databases, listens string
		var servers []net.Listener
		for range count {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer ln.Close()
			servers = append(servers, ln)
			databases += " " + testserver.Database(t)
			listens += " postgres://u@" + ln.Addr().String() + "/d?sslmode=disable"
		}
		o, err := read(nil, environment("DATABASE_URL", databases, "TIMEOUTD_DATABASE_LISTEN", listens))
		require.NoError(t, err)
		require.NoError(t, o.validate())
		e, err := o.openEngine(t.Context(), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Engine.(engine.Waker).Wake(ctx, func(string) {}, func(engine.Key) {}) }()
		for _, ln := range servers {
			conn, err := ln.Accept()
			require.NoError(t, err)
			conn.Close()
		}
		cancel()
		<-ended
		require.NoError(t, e.Close())
	}
}
