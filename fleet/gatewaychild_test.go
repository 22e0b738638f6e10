package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

const childGateway = "HEARTWHEEL_FLEET_CHILD_GATEWAY"

// runGateway is the process of a gateway. Its first line of input is its gatewayConfig. It serves
// until the input ends, or until SIGTERM: then it drains first.
func runGateway() {
	input := bufio.NewScanner(os.Stdin)
	var mu sync.Mutex
	output := json.NewEncoder(os.Stdout)
	say := func(h happening) {
		mu.Lock()
		defer mu.Unlock()
		_ = output.Encode(h)
	}
	var cfg gatewayConfig
	if !input.Scan() {
		os.Exit(0)
	}
	err := json.Unmarshal(input.Bytes(), &cfg)
	var g *gateway
	if err == nil {
		g, err = openGateway(cfg, say)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	say(happening{Kind: "ready", Session: g.ln.Addr().String()})
	go func() {
		for input.Scan() { // nothing is said
		}
		os.Exit(0)
	}()
	<-ended
	if err := g.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// gatewayChild is the process of runGateway.
type gatewayChild struct {
	*child
	heard sync.WaitGroup // reads what it says
}

// spawnGateway starts the process. It waits for its gatewayConfig.
func spawnGateway(t *testing.T, attributes *syscall.SysProcAttr) *gatewayChild {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), proctest.AtOnce, childGateway+"=1")
	cmd.SysProcAttr = attributes
	c := new(gatewayChild)
	t.Cleanup(c.heard.Wait) // after the end of the child
	c.child = begin(t, cmd)
	return c
}

// serve makes the process a gateway, and returns its address. Its happenings go to the ledger.
func (c *gatewayChild) serve(t *testing.T, cfg gatewayConfig, l *ledger) (addr string) {
	t.Helper()
	line, err := json.Marshal(cfg)
	require.NoError(t, err)
	_, err = io.WriteString(c.in, string(line)+"\n")
	require.NoError(t, err)
	var ready happening
	require.True(t, c.out.Scan(), "it has ended")
	require.NoError(t, json.Unmarshal(c.out.Bytes(), &ready))
	require.Equal(t, "ready", ready.Kind)
	c.heard.Go(func() {
		for c.out.Scan() {
			var h happening
			if json.Unmarshal(c.out.Bytes(), &h) == nil {
				l.note(h)
			}
		}
	})
	return ready.Session
}

// finish has it drain and end.
func (c *gatewayChild) finish(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	c.heard.Wait() // what it says ends when it does
	require.NoError(t, c.cmd.Wait())
}
