//go:build !unix

package server

import (
	"errors"

	"github.com/panjf2000/gnet/v2"
)

func closeWrite(gnet.Conn) error { return errors.ErrUnsupported }
