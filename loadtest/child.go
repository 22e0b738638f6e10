package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// child is a process of our own, such as a server.
type child struct {
	cmd       *exec.Cmd
	addr      string
	idleFiles int // descriptors before the first connection
	listening chan string
	said      sync.WaitGroup // of what reads what it says
	done      chan struct{}  // closed when it has ended
	how       error          // once it has

	mu  sync.Mutex
	log []string // its last lines
}

const logLines = 20

// errFlags is that of a server that exits with exitUsage, as those here do. What it can't do, it
// knows best.
var errFlags = errors.New("the server refuses what the flags ask for")

// startChild starts a server, which says in its log on stderr where it listens. What it
// writes to stdout is for nobody.
func startChild(binary string, args, env []string) (*child, error) {
	c := newChild(binary, args, env)
	return c, c.start(c.readLog, nil)
}

func newChild(binary string, args, env []string) *child {
	c := &child{cmd: exec.Command(binary, args...), listening: make(chan string, 1), done: make(chan struct{})}
	c.cmd.Env = env
	c.cmd.SysProcAttr = dieWithParent()
	return c
}

// start starts the process. Both functions get each line that it writes, until the last; without
// one they are for nobody. start must be called on a locked thread that stays until the process
// has ended.
func (c *child) start(stderr, stdout func(line []byte)) error {
	for _, pipe := range []struct {
		open func() (io.ReadCloser, error)
		line func([]byte)
	}{{c.cmd.StderrPipe, stderr}, {c.cmd.StdoutPipe, stdout}} {
		if pipe.line == nil {
			continue
		}
		r, err := pipe.open()
		if err != nil {
			return fmt.Errorf("starting the server: %w", err)
		}
		c.said.Add(1)
		defer func() { go c.read(r, pipe.line) }()
	}
	if err := c.cmd.Start(); err != nil { // which has closed the pipes
		return fmt.Errorf("starting the server: %w", err)
	}
	go func() {
		c.said.Wait() // Wait closes the pipes
		c.how = c.cmd.Wait()
		close(c.done)
	}()
	return nil
}

func (c *child) read(r io.Reader, line func([]byte)) {
	defer c.said.Done()
	for scanner := bufio.NewScanner(r); scanner.Scan(); {
		line(scanner.Bytes())
	}
	_, _ = io.Copy(io.Discard, r) // after a line that is too long
}

// listens waits until the server does.
func (c *child) listens(ctx context.Context) error {
	select {
	case c.addr = <-c.listening:
		c.idleFiles = openFiles(c.cmd.Process.Pid)
		return nil
	case <-c.done:
		if c.cmd.ProcessState.ExitCode() == exitUsage {
			return fmt.Errorf("%w: %s", errFlags, c.lastWords())
		}
		return fmt.Errorf("the server ended at once: %s", c.lastWords())
	case <-time.After(startLimit):
		return fmt.Errorf("the server does not listen after %v: %s", startLimit, c.lastWords())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readLog keeps the last lines of the server's log and looks for its address.
func (c *child) readLog(line []byte) {
	if msg, addr := c.remember(line); msg == saysListening {
		c.listensAt(addr)
	}
}

const saysListening = "server: listening"

// remember keeps a line, and returns what it says.
func (c *child) remember(line []byte) (msg, addr string) {
	var said struct{ Msg, Addr string }
	_ = json.Unmarshal(line, &said) // or it is no such line
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, string(line))
	if len(c.log) > logLines {
		c.log = c.log[1:]
	}
	return said.Msg, said.Addr
}

func (c *child) listensAt(addr string) {
	select {
	case c.listening <- addr:
	default: // said twice
	}
}

func (c *child) lastWords() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	words := c.log
	if plain := slices.DeleteFunc(slices.Clone(words), func(line string) bool { return strings.HasPrefix(line, "{") }); len(plain) > 0 {
		words = plain // why it has ended, rather than its log
	}
	if len(words) == 0 {
		return "it said nothing"
	}
	return strings.Join(words, "; ")
}

// ended waits until the server has ended, and returns what was wrong with that.
func (c *child) ended(ctx context.Context, deadline time.Time) error {
	select {
	case <-c.done:
		if c.how != nil {
			return fmt.Errorf("%w: %s", c.how, c.lastWords())
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Until(deadline)):
		return fmt.Errorf("it still runs %v after SIGTERM: %s", stopLimit, c.lastWords())
	}
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}
