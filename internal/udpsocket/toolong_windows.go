package udpsocket

import (
	"errors"

	"golang.org/x/sys/windows"
)

// IsTooLong reports whether a read has failed because its datagram was longer than its buffer. The datagram is
// gone, and its sender is unknown.
func IsTooLong(err error) bool { return errors.Is(err, windows.WSAEMSGSIZE) }
