// Package netns runs this program in a network namespace of its own: there it can do as it likes.
package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// inside in the environment says that the process is in a network namespace of its own.
const inside = "HEARTWHEEL_LOADTEST_INSIDE"

// IsInside reports whether this process was started by Run.
func IsInside() bool { return os.Getenv(inside) != "" }

// Run runs this program once more, in a network namespace of its own, and returns its exit code. start starts the
// command. Only root can make a namespace.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, start func(*exec.Cmd) error) (exit int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("only root can make a network namespace")
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // it is the end of this thread that would kill it
	defer runtime.UnlockOSThread()
	if err := start(cmd); err != nil {
		return 0, err
	}
	err = cmd.Wait()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && failed.Exited() {
		return failed.ExitCode(), nil
	}
	return 0, err
}

// Enter brings the loopback interface of the new namespace up.
func Enter() error { return setFlags("lo", unix.IFF_UP|unix.IFF_RUNNING) }

// alias is a second name of the loopback interface, for one address more.
const alias = "lo:1"

// AddAddress gives the loopback interface one IPv4 address more.
func AddAddress(addr netip.Addr) error {
	bytes := addr.As4()
	return control(alias, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(bytes[:]) })
}

// RemoveAddress takes it away. Connections from there stay open, and no packet of either side arrives: so a
// machine vanishes.
func RemoveAddress() error { return setFlags(alias, 0) }

func setFlags(name string, flags uint16) error {
	return control(name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(flags); return nil })
}

func control(name string, request uint, set func(*unix.Ifreq) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err == nil {
		err = set(r)
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, request, r)
	}
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	return nil
}
