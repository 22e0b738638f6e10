package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is an echo-heartbeat server of our own, in a process of its own.
type child struct {
	cmd  *exec.Cmd
	addr string
	dir  string // of the binary, if it was built

	mu     sync.Mutex
	log    []string // its last lines
	logged chan struct{}
	exited chan error
}

const (
	serverPackage = "github.com/heartwheel-go/heartwheel/cmd/echo-heartbeat"
	startLimit    = 20 * time.Second
	stopLimit     = 20 * time.Second
	logLines      = 20
)

// startServer builds the server, starts it and waits until it listens.
func startServer(ctx context.Context, cfg config) (_ *child, err error) {
	c := &child{logged: make(chan struct{}), exited: make(chan error, 1)}
	defer func() {
		if err != nil {
			c.kill()
		}
	}()
	binary := cfg.server
	if binary == "" {
		if binary, err = c.build(ctx); err != nil {
			return nil, err
		}
	}
	c.cmd = exec.Command(binary,
		"-addr", "127.0.0.1:0",
		"-timeout", cfg.timeout.String(),
		"-tick", cfg.tick.String(),
		"-max-conns", strconv.Itoa(cfg.conns),
		"-log-format", "json")
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		c.cmd = nil
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	listening := make(chan string, 1)
	go c.readLog(bufio.NewScanner(stderr), listening)
	go func() {
		<-c.logged // Wait closes the pipe
		c.exited <- c.cmd.Wait()
	}()
	select {
	case c.addr = <-listening:
		return c, nil
	case err := <-c.exited:
		c.exited <- err
		return nil, fmt.Errorf("the server ended at once: %s", c.lastWords())
	case <-time.After(startLimit):
		return nil, fmt.Errorf("the server does not listen after %v: %s", startLimit, c.lastWords())
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *child) build(ctx context.Context) (binary string, err error) {
	if c.dir, err = os.MkdirTemp("", "loadtest"); err != nil {
		return "", fmt.Errorf("building the server: %w", err)
	}
	binary = filepath.Join(c.dir, "echo-heartbeat")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, serverPackage).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the server: %w: %s (use -server or -addr outside of Heartwheel's own folder)", err, strings.TrimSpace(string(out)))
	}
	return binary, nil
}

// readLog keeps the last lines of the server's log and looks for its address.
func (c *child) readLog(scanner *bufio.Scanner, listening chan<- string) {
	defer close(c.logged)
	for scanner.Scan() {
		c.mu.Lock()
		c.log = append(c.log, scanner.Text())
		if len(c.log) > logLines {
			c.log = c.log[1:]
		}
		c.mu.Unlock()
		var line struct{ Msg, Addr string }
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Msg == "server: listening" {
			listening <- line.Addr
		}
	}
}

func (c *child) lastWords() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.log) == 0 {
		return "it said nothing"
	}
	return strings.Join(c.log, "; ")
}

// stop ends the server gracefully and returns what it has used.
func (c *child) stop() (*serverReport, error) {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, err
	}
	select {
	case err := <-c.exited:
		c.exited <- err
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, c.lastWords())
		}
	case <-time.After(stopLimit):
		return nil, fmt.Errorf("it still runs %v after SIGTERM: %s", stopLimit, c.lastWords())
	}
	state := c.cmd.ProcessState
	return &serverReport{
		RSSBytes:   peakRSS(state),
		CPUSeconds: (state.UserTime() + state.SystemTime()).Seconds(),
	}, nil
}

// kill ends the server in any case, and removes what was built.
func (c *child) kill() {
	if c.cmd != nil {
		_ = c.cmd.Process.Kill()
		c.exited <- <-c.exited
	}
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
}
