// Package natsserver starts NATS servers for tests, in the process of the test. It is not in
// package testserver so that only who needs it links a server.
package natsserver

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// Start starts a NATS server with JetStream, on a free port of the loopback interface, which
// ends with the test.
func Start(t testing.TB) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: t.TempDir(),
		NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	require.True(t, s.ReadyForConnections(time.Minute), "the NATS server does not serve")
	return s
}
