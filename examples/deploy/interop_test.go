//go:build interop

package main

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/proctest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// small runs a small deploy as a process, and returns its words and its exit code.
func small(t *testing.T, args ...string) (story string, exit int) {
	testmain.NeedProgram(t, "haproxy", "scripts/install-clients")
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, append([]string{
		"-clients", "200", "-servers", "2", "-rounds", "1", "-delay", "500ms", "-drain", "1s", "-every", "300ms", "-back", "1m",
	}, args...)...)
	said := new(logtest.Log)
	cmd.Stdout = said
	log, wait := proctest.Start(t, cmd)
	var ended *exec.ExitError
	for range 5 { // a busy machine takes longer than it should
		if err = wait(); err == nil || errors.As(err, &ended) {
			return said.String() + log.String(), cmd.ProcessState.ExitCode()
		}
	}
	require.NoError(t, err, "%s", said)
	return "", 0
}

func TestNobodyNoticesARollingRestart(t *testing.T) {
	for _, fleet := range []string{"no", "yes"} {
		t.Run("fleet="+fleet, func(t *testing.T) {
			t.Parallel()
			story, exit := small(t, "-fleet", fleet)
			require.Zero(t, exit, "%s", story)
			require.Contains(t, story, "0 failed; 0 done twice")
			require.Contains(t, story, "0 were cut; 0 attempts to connect failed")
			require.Contains(t, story, "verdict pass")
			if fleet == "yes" {
				require.Contains(t, story, " 0 new; 0 told to be offline")
			}
		})
	}
}

func TestAKilledServerIsNoticed(t *testing.T) {
	t.Parallel()
	story, exit := small(t, "-fleet", "no", "-kill")
	require.Equal(t, exitFailure, exit, "%s", story)
	require.Contains(t, story, "verdict fail")
	require.Contains(t, story, "connections were cut")
}
