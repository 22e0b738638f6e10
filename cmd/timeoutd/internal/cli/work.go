package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
)

// workGrace is how long a program may go on after SIGTERM.
const workGrace = 10 * time.Second

// work runs a program for each task that it pulls.
func work(s *session, flags *flag.FlagSet) func(context.Context, []string) error {
	var pull timeoutclient.Pull
	program := flags.String("exec", "", "the `program`, by sh: it has the payload as its input and HEARTWHEEL_ID, _TOPIC, _VERSION, _ATTEMPT and _DUE (in ms) in its environment; exit code 0 is success, and otherwise the end of its standard error is the task's error")
	flags.IntVar(&pull.Max, "max", 1, "tasks at the same time")
	flags.DurationVar(&pull.Lease, "lease", 0, "how long a task waits if this program dies (0: the topic's)")
	return func(ctx context.Context, words []string) error {
		switch {
		case *program == "":
			return misused("work without -exec, must have it")
		case s.asJSON:
			return misused("work with -json, must be without")
		}
		pull.Topic = words[0]
		var printing sync.Mutex
		return s.Work(ctx, pull, func(ctx context.Context, one timeoutclient.Leased) timeoutclient.Outcome {
			outcome := run(ctx, *program, one)
			said := "done"
			switch {
			case outcome.Returned:
				said = "interrupted"
			case outcome.Error != "":
				said = "failed: " + clean(outcome.Error)
			}
			printing.Lock()
			defer printing.Unlock()
			fmt.Fprintf(s.out, "%s %s, attempt %d\n", clean(one.Key().String()), said, one.Attempts)
			return outcome
		})
	}
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
	err := cmd.Run()
	done := err == nil || cmd.ProcessState != nil && cmd.ProcessState.Success() // after SIGTERM, too
	lost := errors.Is(context.Cause(ctx), timeoutclient.ErrLeaseLost)
	if !told.IsZero() && (lost || !done) { // what sh has started must not go on beside another attempt
		endGroup(cmd, told.Add(workGrace))
	}
	switch {
	case done:
		return timeoutclient.Outcome{}
	case ctx.Err() != nil && !lost:
		return timeoutclient.Outcome{Returned: true}
	}
	text := strings.TrimSpace(string(complaint.text))
	if text == "" {
		text = err.Error()
	}
	return timeoutclient.Outcome{Error: text}
}

// endGroup waits for the end of a group that was told to end, and kills it then.
func endGroup(cmd *exec.Cmd, by time.Time) {
	for time.Now().Before(by) && signalGroup(cmd, 0) == nil {
		time.Sleep(10 * time.Millisecond)
	}
	_ = signalGroup(cmd, syscall.SIGKILL)
}

// tail keeps the end of what is written.
type tail struct{ text []byte }

func (t *tail) Write(text []byte) (int, error) {
	t.text = append(t.text, text...)
	t.text = t.text[max(len(t.text)-engine.MaxError, 0):]
	return len(text), nil
}
