//go:build !windows

package netpollkeepalive

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/cloudwego/netpoll"

	"github.com/heartwheel-go/heartwheel/internal/frameworks"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter/adaptertest"
)

func TestTheAdapterForNetpollConforms(t *testing.T) {
	t.Parallel()
	for name, onRequest := range map[string]func(c netpoll.Connection, handle adaptertest.Handler) error{
		"a message for each OnRequest": handleLine,
		"one OnRequest for all":        handleLines,
		"whole messages only":          handleWhole,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proved := adaptertest.Run(t, adaptertest.Adapter{
				NoWait: true,
				Start: func(t *testing.T, k *keepalive.Keeper, handle adaptertest.Handler) net.Addr {
					return serve(t, k, "tcp", Handler{OnRequest: func(_ context.Context, c netpoll.Connection) error {
						return onRequest(c, handle)
					}})
				},
			})
			frameworks.Check(t, "[netpoll](netpoll.md)", "Linux, macOS, BSD", proved)
		})
	}
}

// handleLine waits in OnRequest for the rest of a line.
func handleLine(c netpoll.Connection, handle adaptertest.Handler) error {
	line, err := c.Reader().Until('\n')
	if err != nil {
		return c.Close()
	}
	answer, stay := handle(c, string(line[:len(line)-1]))
	if _, err := c.Writer().WriteBinary(answer); err != nil {
		return err
	}
	if err := c.Writer().Flush(); err != nil || !stay {
		return c.Close()
	}
	return c.Reader().Release()
}

// handleLines stays in OnRequest until the end of the connection, as hertz does.
func handleLines(c netpoll.Connection, handle adaptertest.Handler) (err error) {
	for err == nil && c.IsActive() {
		err = handleLine(c, handle)
	}
	return c.Close()
}

// handleWhole never waits, and leaves an incomplete line in the buffer.
func handleWhole(c netpoll.Connection, handle adaptertest.Handler) error {
	waiting, err := c.Reader().Peek(c.Reader().Len())
	if err != nil || bytes.IndexByte(waiting, '\n') < 0 {
		return err
	}
	return handleLine(c, handle)
}
