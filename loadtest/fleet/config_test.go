package fleet

import (
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// parse reads the flags of a fleet, and -conns.
func parse(args string) (Config, error) {
	cfg, flags := Config{}, flag.NewFlagSet("loadtest", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	cfg.Define(flags)
	flags.IntVar(&cfg.Conns, "conns", 10_000, "")
	if err := flags.Parse(strings.Fields(args)); err != nil {
		return cfg, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := cfg.SetDefaults(given); err != nil {
		return cfg, err
	}
	return cfg, cfg.Check(time.Hour)
}

// A report is for everybody, and so are the arguments of a process.
func TestThePasswordOfRedisIsInTheEnvironmentOnly(t *testing.T) {
	cfg, err := parse("-nodes 3 -redis redis://user:secret@host:1/2 -redis-timeout 2s")
	require.NoError(t, err)
	require.Equal(t, "redis://user:xxxxx@host:1/2", Redacted(cfg.Redis))
	args := strings.Join(cfg.gatewayArgs("p"), " ")
	require.NotContains(t, args, "secret")
	require.Contains(t, args, "-redis-timeout 2s")
	for _, env := range [][]string{nil, {"GOMAXPROCS=1"}} {
		require.Contains(t, gatewayEnv(env, cfg.Redis), "REDIS_URL=redis://user:secret@host:1/2")
	}
}

func TestDefaultsOfAFleet(t *testing.T) {
	cfg, err := parse("-nodes 3")
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, cfg.Renew)
	require.Equal(t, time.Minute, cfg.Steady)
	require.Equal(t, 1, cfg.Kill)
	require.Equal(t, 91*time.Second, cfg.detectable())

	cfg, err = parse("-nodes 3 -node-lease 6s")
	require.NoError(t, err)
	require.Equal(t, 10*time.Minute, cfg.Lease)
	require.Equal(t, 12*time.Second, cfg.Steady)
	require.Equal(t, 7*time.Second, cfg.detectable())
	require.Equal(t, 7*time.Second, cfg.aftermath())

	for args, want := range map[string]time.Duration{"-lease 60s -kill 0": 0, "-rolling": 91 * time.Second, "-rolling -node-lease 6s": 91 * time.Second, "-rolling -lease 6s": 7 * time.Second} {
		cfg, err = parse(args + " -nodes 3")
		require.NoError(t, err)
		require.Equal(t, want, cfg.aftermath(), args)
	}

	for args, kill := range map[string]int{"-nodes 1": 0, "-nodes 2": 1, "-nodes 2 -rolling": 0} {
		cfg, err = parse(args)
		require.NoError(t, err)
		require.Equal(t, kill, cfg.Kill, args)
	}
}

// Whichever nodes are killed or restarted, no node gets more than fits into its descriptors.
func TestANodeHasRoomForTheClientsOfOthers(t *testing.T) {
	for args, most := range map[string]int{
		"-conns 3000 -nodes 3 -kill 0":           1000,
		"-conns 3000 -nodes 3":                   1250,
		"-conns 3000 -nodes 3 -return 1":         1500,
		"-conns 3000 -nodes 3 -return 0":         1000,
		"-conns 3000 -nodes 4 -kill 2 -return 1": 1500,
		"-conns 3000 -nodes 3 -rolling":          1500,
	} {
		cfg, err := parse(args)
		require.NoError(t, err)
		require.Equal(t, most+slack, cfg.mostLater(), args)
	}
	cfg, err := parse("-conns 60000 -nodes 3")
	require.NoError(t, err)
	require.EqualError(t, cfg.Fits(20_000),
		"-conns 60000: up to 25016 are on one of -nodes 3, and there is room for 19119 in the 20000 descriptors of a process (see ulimit -n)")
	require.NoError(t, cfg.Fits(30_000))
}

func TestWhoComesBackIsChosenAtRandom(t *testing.T) {
	cfg, err := parse("-conns 1001 -nodes 3 -return 0.3")
	require.NoError(t, err)
	f := New(cfg)
	require.Len(t, f.stays, 334, "those of the first node")
	stay := 0
	for _, stays := range f.stays {
		if stays {
			stay++
		}
	}
	require.Equal(t, 234, stay)
	require.NotEqual(t, f.stays, New(cfg).stays)
	require.NotEqual(t, f.prefix, New(cfg).prefix)
}
