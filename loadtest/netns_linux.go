package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/netns"
)

const (
	// socketTable is how a new namespace gets a table of sockets of its own.
	socketTable = "net.ipv4.tcp_child_ehash_entries"
	maxTable    = 16 << 20 // the kernel takes no more
)

// runInNetns runs this program once more, in a network namespace of its own with a large enough table
// of sockets.
func runInNetns(ctx context.Context, cfg config, args []string, stdout, stderr io.Writer) (exit int, err error) {
	exit, err = netns.Run(ctx, args, stdout, stderr, func(cmd *exec.Cmd) error {
		return startWithTable(cmd, 2*(cfg.conns+cfg.probes))
	})
	if err != nil {
		return 0, fmt.Errorf("-netns: %w", err)
	}
	return exit, nil
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

func isInNetns() bool { return netns.IsInside() }

func enterNetns() error {
	if err := netns.Enter(); err != nil {
		return fmt.Errorf("-netns: %w", err)
	}
	return nil
}
