//go:build interop

package main

import (
	"bufio"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

const (
	debian    = "mosquitto-clients" //nolint:misspell // its name
	subscribe = "mosquitto_sub"     //nolint:misspell // its name
	publish   = "mosquitto_pub"     //nolint:misspell // its name
)

// Mosquitto's clients with a keep alive of 5 s, their shortest: one pings by itself, and one
// hangs.
func TestMosquitto(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"mqttv311", "mqttv5"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			host, port, err := net.SplitHostPort(s.Addr)
			require.NoError(t, err)
			start := func() (*exampletest.Running, *bufio.Scanner) {
				sub := exampletest.Program(t, debian, subscribe,
					"-h", host, "-p", port, "-V", version, "-t", "news", "-k", "5", "-d")
				r := exampletest.Run(t, exampletest.Program(t, "coreutils", "stdbuf", append([]string{"-oL"}, sub.Args...)...))
				out := bufio.NewScanner(r.Out)
				requireLine(t, out, "Subscribed")
				return r, out
			}
			_, listening := start()
			hanging, out := start()
			last := time.Now()
			require.NoError(t, hanging.Process.Signal(syscall.SIGSTOP))
			s.Logs(t, "reason=idle")
			require.GreaterOrEqual(t, time.Since(last), 7*time.Second) // 7.5, but the packet before came earlier

			exampletest.Output(t, exampletest.Program(t, debian, publish,
				"-h", host, "-p", port, "-V", version, "-t", "news", "-m", "nothing has happened"))
			requireLine(t, listening, "nothing has happened")
			if version == "mqttv5" {
				require.NoError(t, hanging.Process.Signal(syscall.SIGCONT))
				requireLine(t, out, "Received DISCONNECT (141)") // keep alive timeout
			}
		})
	}
}

func requireLine(t *testing.T, out *bufio.Scanner, text string) {
	seen := ""
	for out.Scan() {
		if strings.Contains(out.Text(), text) {
			return
		}
		seen += out.Text() + "\n"
	}
	require.FailNow(t, "the program does not say "+text, "%s", seen)
}
