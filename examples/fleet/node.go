package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/examples/fleet/internal/gateway"
	"github.com/heartwheel-go/heartwheel/internal/process"
)

const (
	// startLimit and stopLimit are how long a gateway may take to start, and to end.
	startLimit = 20 * time.Second
	stopLimit  = 20 * time.Second

	lastLines = 10
)

// node is a gateway, as a process.
type node struct {
	*process.Process
	name, addr string

	mu      sync.Mutex
	state   condition
	figures gateway.Figures
	log     []string // its last lines
	warning string   // the last one of them above INFO
}

// condition is the state of a node, for the page.
type condition string

const (
	up       condition = "up"
	died     condition = "died" // by itself
	killed   condition = "killed"
	draining condition = "draining"
	ended    condition = "ended"
)

// startNode starts a gateway and waits until it has a node of the fleet. Its events go to
// tell. The URL of Redis may have a password, so it is no argument: everybody can read
// arguments.
func startNode(ctx context.Context, name, redis string, args []string, tell func(gateway.Event)) (*node, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n := &node{name: name, state: up}
	open := make(chan struct{})
	cmd := exec.Command(self, append([]string{asGateway, "-name", name, "-log-format", "json"}, args...)...)
	cmd.Env = append(os.Environ(), "REDIS_URL="+redis)
	cmd.Stdout = &process.Lines{Each: func(line []byte) { n.hear(line, tell) }}
	cmd.Stderr = &process.Lines{Each: func(line []byte) { n.logged(line, open) }}
	if n.Process, err = process.Start(cmd); err != nil {
		return nil, err
	}
	select {
	case <-open:
		return n, nil
	case <-n.Ended():
		return nil, fmt.Errorf("%s has ended at once: %s", name, n.lastWords())
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(startLimit):
		err = errors.New(name + " is not open: " + n.lastWords())
	}
	n.Kill()
	return nil, err
}

// hear takes a line of stdout.
func (n *node) hear(line []byte, tell func(gateway.Event)) {
	var event gateway.Event
	if json.Unmarshal(line, &event) != nil {
		return
	}
	if event.Name != "stats" {
		tell(event)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = json.Unmarshal(line, &n.figures) // it was JSON above
}

// logged takes a line of stderr.
func (n *node) logged(line []byte, open chan<- struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.log = append(n.log, string(line)); len(n.log) > lastLines {
		n.log = n.log[1:]
	}
	var said struct{ Level, Msg, Addr string }
	if json.Unmarshal(line, &said) != nil || said.Level != "INFO" { // such as a panic
		n.warning = string(line)
	}
	switch said.Msg {
	case "server: listening":
		n.addr = said.Addr // before it is open
	case "gateway: open":
		close(open)
	}
}

func (n *node) lastWords() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.log, "; ")
}

// complaint returns the last line of the log above INFO, or "".
func (n *node) complaint() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.warning
}

func (n *node) become(c condition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = c
}

func (n *node) now() (condition, gateway.Figures) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == up && n.hasEnded() {
		return died, n.figures
	}
	return n.state, n.figures
}

func (n *node) hasEnded() bool {
	if n.Process == nil { // a test's
		return false
	}
	select {
	case <-n.Ended():
		return true
	default:
		return false
	}
}

// crash kills the gateway without a word.
func (n *node) crash() {
	n.become(killed)
	n.Kill()
}

// drain lets the gateway leave its sessions to others and end.
func (n *node) drain() error {
	n.become(draining)
	defer n.become(ended)
	if err := n.Finish(stopLimit); err != nil {
		return fmt.Errorf("%s has not ended well: %w: %s", n.name, err, n.lastWords())
	}
	return nil
}
