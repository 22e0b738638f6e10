//go:build !linux

package main

import "time"

func peakBytes(int) int64             { return 0 }
func residentBytes(int) int64         { return 0 }
func processorTime(int) time.Duration { return 0 }
func openFiles(int) int               { return 0 }
func busyTime() time.Duration         { return 0 }

func workInBatches() (undo func()) { return func() {} }
