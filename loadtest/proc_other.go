//go:build !linux

package main

import (
	"os"
	"time"
)

func peakRSS(*os.ProcessState) int64  { return 0 }
func residentBytes(int) int64         { return 0 }
func processorTime(int) time.Duration { return 0 }
func busyTime() time.Duration         { return 0 }
