//go:build !linux

package testserver

import "syscall"

// Elsewhere there is no /proc, and no signal when a parent dies: servers can be started and
// ended, and not paused.
const (
	sigStop     = syscall.Signal(0)
	sigContinue = syscall.Signal(0)
)

func attributes(*account) *syscall.SysProcAttr { return nil }

func descendants(int) []int { return nil }

func anyLives([]int) bool { return false }

func anyRuns([]int) bool { return false }

func signalAll([]int, syscall.Signal) error { return nil }
