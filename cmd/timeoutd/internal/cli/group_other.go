//go:build !unix

package cli

import (
	"os/exec"
	"syscall"
)

// lead does nothing: there are no groups of processes.
func lead(*exec.Cmd) {}

func signalGroup(cmd *exec.Cmd, s syscall.Signal) error { return cmd.Process.Signal(s) }

// aliveGroup is for a group whose leader has ended.
func aliveGroup(*exec.Cmd) bool { return false }
