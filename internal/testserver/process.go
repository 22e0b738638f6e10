package testserver

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/process"
)

// family is a running program with its descendants.
type family struct{ *process.Process }

// pause stops the process first, and then its descendants. So it starts no further ones. It waits until
// all their threads stand still: after the signal they may go on for a moment.
func (p *family) pause() error {
	if sigStop == 0 {
		return errors.New("servers can be paused on Linux only")
	}
	if err := p.Signal(sigStop); err != nil {
		return err
	}
	all := descendants(p.PID())
	if err := signalAll(all, sigStop); err != nil {
		return err
	}
	all = append(all, p.PID())
	for deadline := time.Now().Add(endsAfter); anyRuns(all); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("not stopped %v after the signal", endsAfter)
		}
	}
	return nil
}

// resume ends a pause.
func (p *family) resume() error {
	if err := signalAll(descendants(p.PID()), sigContinue); err != nil {
		return err
	}
	return p.Signal(sigContinue)
}

// kill ends the process and its descendants, and waits until they have ended.
func (p *family) kill() {
	others := descendants(p.PID())
	_ = p.Signal(syscall.SIGKILL)
	<-p.Ended()
	_ = signalAll(others, syscall.SIGKILL)
	for deadline := time.Now().Add(endsAfter); anyLives(others) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// finish asks the process to end, waits, and kills it if it takes too long. It reports whether
// the process ended by itself.
func (p *family) finish(ask syscall.Signal) bool {
	_ = p.Signal(ask)
	_ = p.resume() // a paused process does not hear
	select {
	case <-p.Ended():
		return true
	case <-time.After(endsAfter):
		p.kill()
		return false
	}
}
