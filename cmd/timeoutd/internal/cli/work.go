package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
)

// workGrace is how long a program may go on after SIGTERM.
const workGrace = 10 * time.Second

// work runs a program for each task that it pulls.
func work(s *session, flags *flag.FlagSet) doing {
	var pull timeoutclient.Pull
	program := flags.String("exec", "", "the `program`, by sh: it has the payload as its input and HEARTWHEEL_ID, _TOPIC, _VERSION, _ATTEMPT and _DUE (in ms) in its environment; exit code 0 is success, and otherwise the end of its standard error is the task's error")
	flags.IntVar(&pull.Max, "max", 1, "tasks at the same time")
	flags.Var((*duration)(&pull.Lease), "lease", "how long a task waits if this program dies (0: the topic's)")
	return func(ctx context.Context, words []string) error {
		switch {
		case *program == "":
			return misused("work without -exec, must have it")
		case s.asJSON:
			return misused("work with -json, must be without")
		}
		pull.Topic = words[0]
		SurviveBrokenPipes()
		working, end := context.WithCancelCause(ctx)
		defer end(nil)
		var printing sync.Mutex
		err := s.Work(working, pull, func(ctx context.Context, one timeoutclient.Leased) timeoutclient.Outcome {
			outcome := run(ctx, *program, one)
			printing.Lock()
			defer printing.Unlock()
			_, err := fmt.Fprintf(s.out, "%s %s, attempt %d\n", clean(one.Key().String()), said(ctx, outcome), one.Attempts)
			if errors.Is(err, syscall.EPIPE) { // programs that print would fail there, one after the other
				end(err)
			}
			return outcome
		})
		if err == nil && ctx.Err() == nil {
			err = context.Cause(working)
		}
		return err
	}
}

// SurviveBrokenPipes has a write to a pipe without a reader fail: for stdout and stderr it would end the process, before
// that has told of its tasks. The programs that the process starts end of it as usual.
func SurviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// said says what has become of a task.
func said(ctx context.Context, outcome timeoutclient.Outcome) string {
	switch {
	case outcome.Returned:
		return "interrupted"
	case outcome.Error != "":
		return "failed: " + clean(outcome.Error)
	case errors.Is(context.Cause(ctx), timeoutclient.ErrLeaseLost):
		return "done, but its lease was lost"
	}
	return "done"
}

// run runs the program for a task.
func run(ctx context.Context, program string, one timeoutclient.Leased) timeoutclient.Outcome {
	var complaint tail
	cmd := exec.CommandContext(ctx, "sh", "-c", program)
	lead(cmd)
	var told time.Time
	cmd.Cancel = func() error {
		told = time.Now()
		return signalGroup(cmd, syscall.SIGTERM)
	}
	cmd.WaitDelay = workGrace
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(one.Payload), os.Stdout, &complaint
	cmd.Env = append(os.Environ(),
		"HEARTWHEEL_TOPIC="+one.Topic, "HEARTWHEEL_ID="+one.ID, "HEARTWHEEL_VERSION="+strconv.FormatInt(one.Version, 10),
		"HEARTWHEEL_ATTEMPT="+strconv.Itoa(one.Attempts), "HEARTWHEEL_DUE="+strconv.FormatInt(one.Due.UnixMilli(), 10))
	forget, err := launch(cmd)
	defer forget()
	if err == nil {
		err = cmd.Wait()
	}
	done := err == nil || cmd.ProcessState != nil && cmd.ProcessState.Success() // after SIGTERM, too
	lost := errors.Is(context.Cause(ctx), timeoutclient.ErrLeaseLost)
	alone := cmd.ProcessState != nil && told.IsZero() // it has ended by itself
	interrupted := ctx.Err() != nil && !lost && !alone
	if cmd.ProcessState != nil && (lost || !done) { // what sh has started must not go on beside another attempt
		if told.IsZero() {
			_ = cmd.Cancel()
		}
		endGroup(cmd, told.Add(workGrace))
	}
	switch {
	case done:
		return timeoutclient.Outcome{}
	case interrupted:
		return timeoutclient.Outcome{Returned: true}
	}
	return timeoutclient.Outcome{Error: cmp.Or(strings.TrimSpace(complaint.String()), err.Error())}
}

// endGroup waits for the end of a group that was told to end, and kills it then.
func endGroup(cmd *exec.Cmd, by time.Time) {
	for aliveGroup(cmd) {
		if !time.Now().Before(by) {
			_ = signalGroup(cmd, syscall.SIGKILL)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// programs are those of this process that run.
var programs = struct {
	sync.Mutex
	all map[*exec.Cmd]bool
}{all: make(map[*exec.Cmd]bool)}

// KillPrograms kills the programs of work, and lets it start no more. It is for a process that ends at once: no
// terminal's signal reaches them, so they would go on beside another attempt.
func KillPrograms() {
	programs.Lock() // for ever
	for cmd := range programs.all {
		if cmd.Process != nil {
			_ = signalGroup(cmd, syscall.SIGKILL)
		}
	}
}

// launch starts a program. What it has started may go on until the call of forget.
func launch(cmd *exec.Cmd) (forget func(), err error) {
	programs.Lock()
	defer programs.Unlock()
	programs.all[cmd] = true
	return func() {
		programs.Lock()
		defer programs.Unlock()
		delete(programs.all, cmd)
	}, cmd.Start()
}

// tail keeps the end of what is written.
type tail struct{ text []byte }

// String returns the text. It does not begin within a character.
func (t *tail) String() string {
	from := 0
	for len(t.text) == engine.MaxError && from < utf8.UTFMax && !utf8.RuneStart(t.text[from]) {
		from++
	}
	return string(t.text[from:])
}

func (t *tail) Write(text []byte) (int, error) {
	t.text = append(t.text, text...)
	t.text = t.text[max(len(t.text)-engine.MaxError, 0):]
	return len(text), nil
}
