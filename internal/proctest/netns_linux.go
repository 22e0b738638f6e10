package proctest

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// OwnNetwork returns the attributes of a process that starts in a network namespace of its own. Only root can make one.
func OwnNetwork(t testing.TB) *syscall.SysProcAttr {
	t.Helper()
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	probe := exec.Command("true")
	probe.SysProcAttr = attributes
	testmain.NeedPermission(t, probe.Run())
	return attributes
}
