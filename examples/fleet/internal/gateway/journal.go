package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// unread is how many bytes of lines may wait for their reader: a few hundred thousand
	// events.
	unread = 32 << 20

	// parting is how long the reader may take for lines when the process is about to end.
	parting = 3 * time.Second
)

var errUnread = errors.New("nobody reads the events")

// journal writes events, a line each. add does not wait for the reader of the lines; await
// does. When too much waits for the reader, events are lost, and await returns an error.
type journal struct {
	out  io.Writer
	log  *slog.Logger
	wake chan struct{} // has an element when there are lines
	done chan struct{} // closed when the last one is written
	over chan struct{} // closed when the process is about to end

	mu     sync.Mutex
	lines  []byte
	next   *written // of lines
	lost   int      // events, since lines were written last
	closed bool
}

// written is the result of writing some lines.
type written struct {
	done chan struct{}
	over <-chan struct{} // the journal's
	err  error           // once done is closed
}

// notWritten is the result of refused lines.
var notWritten = func() *written {
	w := &written{done: make(chan struct{}), err: errUnread}
	close(w.done)
	return w
}()

func (j *journal) newWritten() *written { return &written{done: make(chan struct{}), over: j.over} }

func newJournal(out io.Writer, log *slog.Logger) *journal {
	j := &journal{out: out, log: log, wake: make(chan struct{}, 1), done: make(chan struct{}), over: make(chan struct{})}
	j.next = j.newWritten()
	go j.write()
	return j
}

// add queues an event to be written.
func (j *journal) add(event any) *written {
	line, err := json.Marshal(event)
	if err != nil {
		panic(err) // events are structs of ours
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines)+len(line) >= unread {
		if j.lost++; j.lost == 1 {
			j.log.Error("events are lost, since nobody reads them", "unread", len(j.lines))
		}
		return notWritten
	}
	j.lines = append(append(j.lines, line...), '\n')
	select {
	case j.wake <- struct{}{}:
	default:
	}
	return j.next
}

// await waits until lines are written, or ctx is done, or the process can't wait any longer.
func (w *written) await(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.over:
	}
	ctx, cancel := context.WithTimeoutCause(ctx, parting, errUnread)
	defer cancel()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// part says that the process is about to end: from now on nobody waits for long.
func (j *journal) part() { close(j.over) }

// write writes the lines that wait, again and again.
func (j *journal) write() {
	defer close(j.done)
	for last := false; !last; {
		<-j.wake
		j.mu.Lock()
		lines, now, lost := j.lines, j.next, j.lost
		j.lines, j.next, j.lost, last = nil, j.newWritten(), 0, j.closed
		j.mu.Unlock()
		if lost > 0 {
			j.log.Warn("events are read again", "lost", lost)
		}
		if _, now.err = j.out.Write(lines); now.err != nil {
			j.log.Error("events can't be written", "error", now.err)
		}
		close(now.done)
	}
}

// close waits until all is written, or for a while: perhaps nobody reads it any more. Nothing
// may be added after it.
func (j *journal) close() {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
	select {
	case <-j.done:
	case <-time.After(parting): // write stays behind: the process is about to end
		j.log.Error("the last events are lost, since nobody reads them")
	}
}
