package proctest

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// Vanish makes a socket drop every packet that comes, as if its machine had vanished. On some machines only root can.
func Vanish(t testing.TB, c syscall.Conn) {
	t.Helper()
	raw, err := c.SyscallConn()
	testmain.Need(t, err)
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	testmain.Need(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	}))
	testmain.NeedPermission(t, err)
}
