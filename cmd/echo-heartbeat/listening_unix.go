//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

var errNotListening = errors.New("it does not listen")

// checkListening returns an error for a socket before listen: one with an address only, or a
// connection (systemd's Accept=yes). Package net can't tell.
func checkListening(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var listens int
	var asked error
	err = raw.Control(func(fd uintptr) {
		listens, asked = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
	})
	if err := errors.Join(err, asked); err != nil {
		return err
	}
	if listens == 0 {
		return errNotListening
	}
	return nil
}
