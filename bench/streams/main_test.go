package main

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if os.Getenv(wayOf) != "" { // measure runs the test binary
		main()
		return
	}
	os.Exit(m.Run())
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, flag.CommandLine.Parse(nil)) })
	for _, f := range []struct{ name, value, want string }{
		{"streams", "0", "-streams 0, must be at least 1"},
		{"rounds", "0", "-rounds 0, must be at least 1"},
		{"interval", "9ms", "-interval 9ms, must be at least 10ms"},
		{"for", "14s", "-for 14s, must be at least -interval, 15s"},
	} {
		require.NoError(t, flag.Set(f.name, f.value))
		require.EqualError(t, measureAll(t.Context()), f.want)
		require.NoError(t, flag.Set(f.name, flag.Lookup(f.name).DefValue))
	}
	require.NoError(t, flag.CommandLine.Parse([]string{"streams"}))
	require.EqualError(t, measureAll(t.Context()), `unexpected argument "streams": there are only flags`)
}

// Each way but the one without comments sends them.
func TestEachWayServes(t *testing.T) {
	args := os.Args
	t.Cleanup(func() { os.Args = args })
	os.Args = []string{args[0], "-streams", "10", "-interval", "20ms", "-for", "200ms"}
	for _, w := range ways {
		r, err := measure(context.Background(), w.name)
		require.NoError(t, err)
		require.Equal(t, w.name == "no comments", r.Comments == 0, "%+v", r)
		require.Positive(t, r.Heap)
	}
}
