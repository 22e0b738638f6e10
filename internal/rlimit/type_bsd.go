//go:build freebsd || dragonfly

package rlimit

type limitType = int64
