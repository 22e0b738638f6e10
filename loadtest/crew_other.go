//go:build !linux

package main

import (
	"context"
	"errors"
	"io"

	"github.com/heartwheel-go/heartwheel/loadtest/fleet"
)

// The rest is for Linux: it uses epoll, descriptors of a thread, addresses of
// 127.0.0.0/8, and /proc.

var errLinuxOnly = errors.New("the load generator runs on Linux only")

type crew struct {
	counters counters
	fleet    *fleet.Fleet
}

func newCrew(config, plan) (*crew, error) { return nil, errLinuxOnly }
func (*crew) dismiss()                    {}

func (*crew) drive(context.Context, []string, *meter) (*result, error) { return nil, errLinuxOnly }

func checkMachine(config, plan) error { return errLinuxOnly }
func enterNetns() error               { return errLinuxOnly }
func isInNetns() bool                 { return false }

func runInNetns(context.Context, config, []string, io.Writer, io.Writer) (exit int, err error) {
	return 0, errLinuxOnly
}
