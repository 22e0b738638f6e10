//go:build interop

package wstest

import (
	"bufio"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

const python = `
import asyncio, ssl, sys, websockets

async def main(url):
    context = ssl._create_unverified_context() if url.startswith("wss") else None
    async with websockets.connect(url, ssl=context, ping_interval=None) as ws:
        await ws.send("hello")
        print((await ws.recv()).decode(), flush=True)
        async for message in ws:
            print(message, flush=True)
        print(ws.close_code, ws.close_reason, flush=True)

asyncio.run(main(sys.argv[1]))
`

// Python's websockets answer pings, until the program is stopped.
func TestPython(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		s := start(t, v, echo)
		c := exampletest.Run(t, exampletest.Program(t, "python3-websockets", "/usr/bin/python3", "-c", python, s.url("ws", "/ws?name=alice")))
		out := bufio.NewReader(c.Out)
		line, err := out.ReadString('\n')
		require.NoError(t, err, line)
		require.Equal(t, "hello\n", line)
		require.Eventually(t, func() bool { return s.keeper.Stats().Probes >= 4 }, exampletest.Late, time.Millisecond, "two timeouts")
		require.Empty(t, s.told)
		require.NoError(t, c.Process.Signal(syscall.SIGSTOP))
		s.requireEnd(t, keepalive.ReasonNoAnswer)
		require.NoError(t, c.Process.Signal(syscall.SIGCONT))
		line, err = out.ReadString('\n')
		require.NoError(t, err, line)
		require.Equal(t, "1001 no_answer\n", line)
	})
}

const pythonServer = `
import asyncio, websockets

async def echo(ws):
    async for message in ws:
        await ws.send(message)

async def main():
    async with websockets.serve(echo, "127.0.0.1", 0, ping_interval=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()

asyncio.run(main())
`

// A server that was stopped still has its sockets open.
func TestAPythonServerThatStops(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		if c.overTLS {
			return
		}
		p := exampletest.Run(t, exampletest.Program(t, "python3-websockets", "/usr/bin/python3", "-c", pythonServer))
		port, err := bufio.NewReader(p.Out).ReadString('\n')
		require.NoError(t, err, port)
		s := c.connect(t, "127.0.0.1:"+strings.TrimSpace(port))
		require.NoError(t, s.write([]byte("hello")))
		got, err := s.read()
		require.NoError(t, err)
		require.Equal(t, "hello", string(got))
		read := make(chan error, 1)
		go func() {
			_, err := s.read()
			read <- err
		}()
		require.Eventually(t, func() bool { return c.keeper.Stats().Probes >= 4 }, exampletest.Late, time.Millisecond, "two timeouts")
		require.Equal(t, 1, c.keeper.Len())
		require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
		require.ErrorIs(t, <-read, net.ErrClosed)
		require.Eventually(t, func() bool { return c.keeper.Stats().Closed[keepalive.ReasonNoAnswer] == 1 }, exampletest.Late, time.Millisecond)
	})
}
