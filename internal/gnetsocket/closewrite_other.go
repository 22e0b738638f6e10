//go:build !unix

package gnetsocket

import (
	"errors"

	"github.com/panjf2000/gnet/v2"
)

func CloseWrite(gnet.Conn) error { return errors.ErrUnsupported }
