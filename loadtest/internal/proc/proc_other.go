//go:build !linux

package proc

import (
	"syscall"
	"time"
)

func PeakBytes(int) int64             { return 0 }
func ResidentBytes(int) int64         { return 0 }
func ProcessorTime(int) time.Duration { return 0 }
func OpenFiles(int) int               { return 0 }
func BusyTime() time.Duration         { return 0 }

func WorkInBatches() (undo func()) { return func() {} }

func DieWithParent() *syscall.SysProcAttr { return nil }
