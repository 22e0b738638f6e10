// Package child runs the servers of a load test as processes of its own.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/proc"
)

const (
	startLimit = 20 * time.Second
	stopLimit  = 30 * time.Second

	logLines = 20

	// exitUsage is the exit code of a server that refuses its flags.
	exitUsage = 2
)

// ErrFlags is the error of a server that refuses its flags. It knows its abilities best.
var ErrFlags = errors.New("the server refuses what the flags ask for")

// Build builds a server into a folder.
func Build(ctx context.Context, dir, pkg string) (binary string, err error) {
	binary = filepath.Join(dir, "server")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the server: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return binary, nil
}

// Process is one server. One goroutine may use it.
type Process struct {
	Addr string // host:port, once Listens has returned

	cmd       *exec.Cmd
	idleFiles int // descriptors before the first connection
	listening chan string
	said      sync.WaitGroup // of the readers of its output
	done      chan struct{}  // closed when it has ended
	how       error          // of Wait, once it has ended

	mu  sync.Mutex
	log []string // its last lines
}

// Start starts a server, and finds its address in its log on stderr. Its stdout is for nobody. The
// thread must be locked, and stay until the server has ended.
func Start(binary string, args, env []string) (*Process, error) {
	p := New(binary, args, env)
	return p, p.Start(p.readLog, nil)
}

// New returns a server before its start. A nil env is this process's environment.
func New(binary string, args, env []string) *Process {
	p := &Process{cmd: exec.Command(binary, args...), listening: make(chan string, 1), done: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.SysProcAttr = proc.DieWithParent()
	return p
}

// Start starts the server. The two functions get each line of its output, until the last; a nil one
// ignores them. The thread must be locked, and stay until the server has ended.
func (p *Process) Start(stderr, stdout func(line []byte)) error {
	for _, pipe := range []struct {
		open func() (io.ReadCloser, error)
		line func([]byte)
	}{{p.cmd.StderrPipe, stderr}, {p.cmd.StdoutPipe, stdout}} {
		if pipe.line == nil {
			continue
		}
		r, err := pipe.open()
		if err != nil {
			return fmt.Errorf("starting the server: %w", err)
		}
		p.said.Add(1)
		defer func() { go p.read(r, pipe.line) }()
	}
	if err := p.cmd.Start(); err != nil { // it has closed the pipes
		return fmt.Errorf("starting the server: %w", err)
	}
	go func() {
		p.said.Wait() // Wait closes the pipes
		p.how = p.cmd.Wait()
		close(p.done)
	}()
	return nil
}

func (p *Process) read(r io.Reader, line func([]byte)) {
	defer p.said.Done()
	for scanner := bufio.NewScanner(r); scanner.Scan(); {
		line(scanner.Bytes())
	}
	_, _ = io.Copy(io.Discard, r) // after a line that is too long
}

// Listens waits until the server listens.
func (p *Process) Listens(ctx context.Context) error {
	select {
	case p.Addr = <-p.listening:
		p.idleFiles = proc.OpenFiles(p.PID())
		return nil
	case <-p.done:
		if p.cmd.ProcessState.ExitCode() == exitUsage {
			return fmt.Errorf("%w: %s", ErrFlags, p.lastWords())
		}
		return fmt.Errorf("the server ended at once: %s", p.lastWords())
	case <-time.After(startLimit):
		return fmt.Errorf("the server does not listen after %v: %s", startLimit, p.lastWords())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readLog keeps the last lines of the server's log and looks for its address.
func (p *Process) readLog(line []byte) {
	if msg, addr := p.Remember(line); msg == SaysListening {
		p.ListensAt(addr)
	}
}

// SaysListening is the message with a server's address.
const SaysListening = "server: listening"

// Remember keeps a line of the server's log, and returns its message and address, if it has them.
func (p *Process) Remember(line []byte) (msg, addr string) {
	var said struct{ Msg, Addr string }
	_ = json.Unmarshal(line, &said) // or it is no such line
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, string(line))
	if len(p.log) > logLines {
		p.log = p.log[1:]
	}
	return said.Msg, said.Addr
}

// ListensAt ends the wait of Listens.
func (p *Process) ListensAt(addr string) {
	select {
	case p.listening <- addr:
	default: // said twice
	}
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Keep allows the server so many descriptors more after its last connection.
func (p *Process) Keep(files int) { p.idleFiles += files }

// Done is closed when the server has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

func (p *Process) lastWords() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	words := p.log
	if plain := slices.DeleteFunc(slices.Clone(words), func(line string) bool { return strings.HasPrefix(line, "{") }); len(plain) > 0 {
		words = plain // the reason of its end, rather than its log
	}
	if len(words) == 0 {
		return "it said nothing"
	}
	return strings.Join(words, "; ")
}

// Terminate tells the server to end. After its end that is no error.
func (p *Process) Terminate() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Ended waits until the server has ended, for half a minute at most. Its error is a bad end.
func (p *Process) Ended(ctx context.Context) error { return p.ended(ctx, time.Now().Add(stopLimit)) }

func (p *Process) ended(ctx context.Context, deadline time.Time) error {
	select {
	case <-p.done:
		if p.how != nil {
			return fmt.Errorf("%w: %s", p.how, p.lastWords())
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Until(deadline)):
		return fmt.Errorf("it still runs %v after SIGTERM: %s", stopLimit, p.lastWords())
	}
}

// Crash kills the server, as the end of its machine would, and does not wait for its end.
func (p *Process) Crash() { _ = p.cmd.Process.Kill() }

// Kill kills the server and waits for its end.
func (p *Process) Kill() {
	p.Crash()
	<-p.done
}
