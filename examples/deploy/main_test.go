package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

func TestMain(m *testing.M) { proctest.Main(m, main) }

func TestBadFlagsAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"-clients 0":     "invalid value 0 for flag -clients: must be from 1 to 50000",
		"-clients 50001": "invalid value 50001 for flag -clients",
		"-servers 1":     "invalid value 1 for flag -servers: must be from 2 to 20",
		"-rounds 0":      "invalid value 0 for flag -rounds",
		"-delay 10ms":    "invalid value 10ms for flag -delay: must be from 100ms to 1h0m0s",
		"-drain -1s":     "invalid value -1s for flag -drain",
		"-every 0s":      "invalid value 0s for flag -every",
		"-back 2h":       "invalid value 2h0m0s for flag -back",
		"-fleet maybe":   `invalid value "maybe" for flag -fleet: must be yes, no or both`,
		"now":            `unexpected argument "now"`,
	} {
		var out, errors strings.Builder
		require.Equal(t, exitUsage, run(t.Context(), strings.Fields(args), &out, &errors), args)
		require.Contains(t, errors.String(), want)
		require.Empty(t, out.String())
	}
}

// The judge finds each fault, and nothing in a deploy without one.
func TestFaultsAreFound(t *testing.T) {
	cfg := config{clients: 2, rounds: 1, back: 10 * time.Second}
	good := func() *figures {
		return &figures{done: 5, clientsReport: clientsReport{Answered: 5, Byes: 2, Gaps: []int64{10, 10_000}, Kinds: map[string]int64{"resumed": 1, "moved": 1}}}
	}
	require.Empty(t, good().faults(cfg, true))
	const fewer = "1 clients came back, and not 2: each was on a server that was restarted"
	for want, spoil := range map[string]func(f *figures){
		"1 requests failed":                                        func(f *figures) { f.Failed++ },
		"1 connections were cut":                                   func(f *figures) { f.Cut++ },
		"1 attempts to connect failed":                             func(f *figures) { f.Attempts++ },
		"1 requests were done twice":                               func(f *figures) { f.done++ },
		"-1 requests were done twice":                              func(f *figures) { f.done-- },
		"a client was without a server for 10.001s, more than 10s": func(f *figures) { f.Gaps[1]++ },
		fewer:                                func(f *figures) { f.Gaps = f.Gaps[:1] },
		"1 sessions were lost":               func(f *figures) { f.Kinds["new"]++ },
		"1 sessions were told to be offline": func(f *figures) { f.offlines++ },
	} {
		f := good()
		spoil(f)
		require.Equal(t, []string{want}, f.faults(cfg, true))
	}
}
