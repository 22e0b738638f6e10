package testserver

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a program that runs, with those that it has started.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
	err   error         // of its end
}

// launch starts a process. One goroutine waits for it, until its end.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux kills the process when the thread that started it ends (see attributes), be
		// it one that Go has no more use for. This one stays until the process ends.
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

// pause stops the process, and then those that it has started: it starts no more.
func (p *process) pause() error {
	if err := p.signal(sigStop); err != nil {
		return err
	}
	return signalAll(descendants(p.cmd.Process.Pid), sigStop)
}

// resume ends a pause.
func (p *process) resume() error {
	if err := signalAll(descendants(p.cmd.Process.Pid), sigContinue); err != nil {
		return err
	}
	return p.signal(sigContinue)
}

// kill ends the process and all that it has started, and waits until they have.
func (p *process) kill() {
	family := descendants(p.cmd.Process.Pid)
	_ = p.signal(syscall.SIGKILL)
	<-p.ended
	_ = signalAll(family, syscall.SIGKILL)
	for deadline := time.Now().Add(endsAfter); anyLives(family) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// finish asks the process to end, waits, and kills it where that takes too long. It reports
// whether the process ended by itself.
func (p *process) finish(ask syscall.Signal) bool {
	_ = p.signal(ask)
	_ = p.resume() // what is paused does not hear
	select {
	case <-p.ended:
		return true
	case <-time.After(endsAfter):
		p.kill()
		return false
	}
}

// signal signals the process alone, and nobody who has got its id since.
func (p *process) signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }
