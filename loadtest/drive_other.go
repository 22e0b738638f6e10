//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
)

// drive is for Linux: it uses epoll, and addresses of 127.0.0.0/8.
func drive(context.Context, config, io.Writer) (*result, error) {
	return nil, errors.New("the load generator runs on Linux only")
}
