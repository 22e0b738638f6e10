package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// inside in the environment says that the process is in a network namespace of its own.
	inside = "HEARTWHEEL_LOADTEST_INSIDE"

	// socketTable is how a new namespace gets a table of sockets of its own.
	socketTable = "net.ipv4.tcp_child_ehash_entries"
	maxTable    = 16 << 20 // the kernel takes no more
)

// runInNetns runs this program once more, in a network namespace of its own with a large enough table
// of sockets.
func runInNetns(ctx context.Context, cfg config, args []string, stdout, stderr io.Writer) (exit int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("-netns: only root can make a network namespace")
	}
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("-netns: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // it is the end of this thread that would kill it
	defer runtime.UnlockOSThread()
	if err := startWithTable(cmd, 2*(cfg.conns+cfg.probes)); err != nil {
		return 0, fmt.Errorf("-netns: %w", err)
	}
	err = cmd.Wait()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && failed.Exited() {
		return failed.ExitCode(), nil
	}
	return 0, err
}

// startWithTable starts a command with a namespace of its own and a table of at least size sockets in
// it. The setting is this namespace's, so it is set back.
func startWithTable(cmd *exec.Cmd, size int) error {
	if before, err := setting(socketTable); err == nil { // since Linux 6.2
		table := 1
		for table < min(size, maxTable) {
			table *= 2
		}
		file := settingFile(socketTable)
		if err := os.WriteFile(file, []byte(strconv.Itoa(table)), 0); err != nil {
			return err
		}
		defer func() {
			// Unless somebody else has set it meanwhile.
			if now, err := setting(socketTable); err == nil && now[0] == table {
				_ = os.WriteFile(file, []byte(strconv.Itoa(before[0])), 0)
			}
		}()
	}
	return cmd.Start()
}

// enterNetns brings the loopback interface of a new namespace up.
func enterNetns() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("-netns: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("-netns: %w", err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("-netns: bringing lo up: %w", err)
	}
	return nil
}
