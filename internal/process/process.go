// Package process starts programs and ends them with this one: on Linux however this one ends, and
// elsewhere only if it ends in peace.
package process

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a program, running or ended.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of Wait, once it has ended
}

// Start starts a program, on Linux outside of this one's group: a SIGINT of the terminal goes to this
// one only, to be passed on. The caller ends it, by Kill or Finish.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	dieWithParent(cmd)
	started := make(chan error, 1)
	go func() {
		// Linux kills the program at the end of its parent thread, even if only Go has no more use for
		// the thread. This thread stays for as long as the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	return p, <-started
}

// PID is its number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when it has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err returns how it has ended: nil is well, and while it runs.
func (p *Process) Err() error {
	select {
	case <-p.ended:
		return p.err
	default:
		return nil
	}
}

// Signal signals it alone, and never a later process of the same number.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill ends it as a crash would, and waits until it has ended.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Finish asks it to end, and kills it after limit. It returns how it has ended: nil is well.
func (p *Process) Finish(limit time.Duration) error {
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.Kill()
	}
	return p.err
}
