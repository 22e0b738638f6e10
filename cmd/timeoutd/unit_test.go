package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const units = "../../deploy/systemd/"

// The unit's config is one that the program takes, and the unit keeps its file in a directory of systemd.
func TestTheUnitSetsWhatThereIs(t *testing.T) {
	o, err := read([]string{"-config", units + "timeoutd.conf"}, func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	require.NoError(t, o.validate())
	unit, err := os.ReadFile(units + "timeoutd.service")
	require.NoError(t, err)
	require.Contains(t, string(unit), "\nStateDirectory=timeoutd\n")
	require.NotContains(t, string(unit), "WatchdogSec", "the program feeds none")
	require.NotContains(t, string(unit), "ExecReload", "a SIGHUP ends the program")
}
