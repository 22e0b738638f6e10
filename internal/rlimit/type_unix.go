//go:build unix && !freebsd && !dragonfly

package rlimit

type limitType = uint64
