package main

import (
	"context"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// The order that is not paid is cancelled, after a restart too.
func TestAnOrderThatIsNotPaidIsCancelled(t *testing.T) {
	var logged logtest.Log
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	file := filepath.Join(t.TempDir(), "orders.db")
	earlier, err := sqlite.Open(file, sqlite.Config{})
	require.NoError(t, err)
	center, err := timeout.New(earlier, timeout.Config{})
	require.NoError(t, err)
	_, err = center.Set(t.Context(), timeout.Task{Topic: "unpaid", ID: "4710"})
	require.NoError(t, err)
	require.NoError(t, center.Close())
	require.NoError(t, earlier.Close())

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, file) }()
	logged.Await(t, "cancel order 4710")
	logged.Await(t, "cancel order 4712")
	stop()
	require.NoError(t, <-ended)
	require.NotContains(t, logged.String(), "4711")
}
