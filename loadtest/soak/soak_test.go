package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBadFlagsAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"-timeout 10ms":           "-timeout 10ms: must be at least 1s",
		"-time 59s":               "-time 59s: must be at least six timeouts, 1m0s",
		"-conns 1":                "-conns 1: must be at least 11, one of each kind",
		"-conns 10000000":         "-conns 10000000: must be at most",
		"-flat -1":                "-flat -1: must not be negative",
		"-flat NaN":               "-flat NaN: must not be negative",
		"-timeout 2562047h":       "-timeout 2562047h0m0s: must be at most 1000h0m0s",
		"now":                     `unexpected argument "now"`,
		"-time 1h -timeout whole": `invalid value "whole"`,
	} {
		var out, errors bytes.Buffer
		require.Equal(t, exitUsage, run(t.Context(), strings.Fields(args), &out, &errors), args)
		require.Contains(t, errors.String(), want)
		require.Empty(t, out.String())
	}
}

// A server that keeps its promises passes, and one that was told a shorter timeout than the clients know does not.
func TestASoakFindsWhoIsClosedEarly(t *testing.T) {
	const timeout = time.Second
	for _, c := range []struct {
		name  string
		rules rules
		pass  bool
		says  string
	}{
		{"right", newRules(timeout), true, "early 0, wrong 0, lost 0"},
		{"early", newRules(2 * timeout), false, "early, \"BYE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			s := newSoak(config{time: 8 * timeout, conns: 100, timeout: timeout, seed: 1, flat: 10}, &out)
			s.rules = c.rules
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			require.NoError(t, s.run(ctx))
			passed := s.tally.write(&out)
			require.Equal(t, c.pass, s.tally.nFaults == 0, "%s", &out)
			if s.tally.verdicts[ownLate] == 0 { // else this machine is too busy to tell more
				require.Equal(t, c.pass, passed, "%s", &out)
			}
			require.Contains(t, out.String(), c.says)
		})
	}
}

func TestASoakFindsAServerThatTakesNoConnections(t *testing.T) {
	for name, c := range map[string]struct {
		kind               string
		listening, leaving bool
		pass               bool
	}{
		"it is there":                       {"talks", true, false, false},
		"it is being started":               {"talks", false, false, true},
		"it has ended":                      {"talks", true, true, true},
		"the client's machine has vanished": {"vanishes", true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSoak(config{timeout: time.Second}, io.Discard)
			s.tally.verdicts[right] = 1
			g := &generation{addr: "127.0.0.1:1"} // nobody listens there
			g.listening.Store(c.listening)
			g.leaving.Store(c.leaving)
			s.serve(g)
			require.False(t, (&client{soak: s, kind: named(c.kind), from: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}).dial())
			var out bytes.Buffer
			require.Equal(t, c.pass, s.tally.write(&out), "%s", &out)
			require.Contains(t, out.String(), "1 found no server")
		})
	}
}

func TestASoakOfNobodyFails(t *testing.T) {
	var out bytes.Buffer
	require.False(t, newTally().write(&out))
	require.Contains(t, out.String(), "no end was right")
}
