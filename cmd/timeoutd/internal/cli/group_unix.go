//go:build unix

package cli

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// lead makes a command the leader of a group of processes: all that it starts.
func lead(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup sends a signal to all of the group.
func signalGroup(cmd *exec.Cmd, s syscall.Signal) error {
	err := syscall.Kill(-cmd.Process.Pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// aliveGroup reports whether a group goes on after its leader. In a container without an init its orphans are children of
// this process: then a dead one belongs to the group until it is waited for.
func aliveGroup(cmd *exec.Cmd) bool {
	for {
		if pid, _ := syscall.Wait4(-cmd.Process.Pid, nil, syscall.WNOHANG, nil); pid <= 0 {
			return signalGroup(cmd, 0) == nil
		}
	}
}
