//go:build interop && unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

// strangers are a client of another language each: it connects again when its connection has ended.
const (
	asks = `while [ ! -e "$1" ]; do curl -sS --max-time 60 "http://$2/" || echo "FAILED $?"; done`

	stays = `
import asyncio, sys, websockets

async def stay(name):
    async for ws in websockets.connect("ws://" + sys.argv[1] + "/ws"):
        try:
            print(name, "at", await ws.recv(), flush=True)
            while True:
                await ws.send("x")
                await ws.recv()
                await asyncio.sleep(.05)
        except websockets.ConnectionClosed as e:
            print(name, "left", e.rcvd and (e.rcvd.code, e.rcvd.reason), flush=True)

async def all():
    await asyncio.gather(*(stay("client-%d." % i) for i in range(10)))

asyncio.run(all())
`
)

// run starts a stranger, and keeps its words.
func run(t *testing.T, cmd *exec.Cmd) (words *logtest.Log) {
	words = new(logtest.Log)
	out := exampletest.Run(t, cmd).Out
	go func() { _, _ = io.Copy(words, out) }()
	return words
}

// Twice in a row a process is replaced. No connect is refused, each request is answered, and WebSockets come
// back after a goodbye.
func TestCurlAndWebSocketsOfPythonLiveThroughUpgrades(t *testing.T) {
	t.Parallel()
	w := start(t, "-drain", "8s")
	over := filepath.Join(t.TempDir(), "over")
	curls := []*logtest.Log{
		run(t, exampletest.Program(t, "bash", "sh", "-c", asks, "asks", over, w.addr)),
		run(t, exampletest.Program(t, "bash", "sh", "-c", asks, "asks", over, w.addr)),
	}
	sockets := run(t, exampletest.Program(t, "python3-websockets", "/usr/bin/python3", "-c", stays, w.addr))
	at := func(pid int) {
		for i := range 10 {
			sockets.Await(t, fmt.Sprintf(`client-%d\. at %d\n`, i, pid))
		}
		for _, curl := range curls {
			curl.Await(t, fmt.Sprintf(`hello from %d\n`, pid))
		}
	}
	at(w.pid(t))
	for range 2 {
		slow := exampletest.Program(t, "curl", "curl", "-sS", "--max-time", "60", "http://"+w.addr+"/?for=1s")
		asked, answer := len(w.log.Lines("INFO asked")), make(chan string, 1)
		go func() {
			out, _ := slow.CombinedOutput()
			answer <- string(out)
		}()
		require.Eventually(t, func() bool { return len(w.log.Lines("INFO asked")) > asked }, proctest.Eternal, exampletest.Beat/100)
		old, now := w.upgrade(t)
		require.Equal(t, fmt.Sprintln("hello from", old), <-answer, "of the process that was asked")
		at(now)
	}
	require.NoError(t, os.WriteFile(over, nil, 0o600))
	for _, curl := range curls {
		require.NotContains(t, curl.String(), "FAILED")
		require.NotContains(t, curl.String(), "curl:")
	}
	require.Len(t, regexp.MustCompile(`client-\d+\. left \(1001, 'drain'\)`).FindAllString(sockets.String(), -1), 20, "%s", sockets)
	require.Equal(t, 20, strings.Count(sockets.String(), "left"), "%s", sockets)
	w.stop(t)
}
