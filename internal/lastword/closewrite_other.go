//go:build !unix

package lastword

import (
	"errors"

	"github.com/panjf2000/gnet/v2"
)

func CloseWrite(gnet.Conn) error { return errors.ErrUnsupported }
