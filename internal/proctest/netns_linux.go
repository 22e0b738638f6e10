package proctest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// OwnNetwork has a process start in a network namespace of its own, to end with it. Only root can make
// one, so others skip the test; for root it fails if the machine can not.
func OwnNetwork(t testing.TB) *syscall.SysProcAttr {
	t.Helper()
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	probe := exec.Command("true")
	probe.SysProcAttr = attributes
	if err := probe.Run(); os.Geteuid() == 0 {
		require.NoError(t, err, "making a network namespace")
	} else if err != nil {
		t.Skipf("only root can make a network namespace (%v): sudo make test", err)
	}
	return attributes
}
