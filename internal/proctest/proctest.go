// Package proctest starts a program as a process of its own in the tests of its command. The test
// binary itself is the program, so there is nothing to build. A data race in the program fails the test, too.
package proctest

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// Eternal is how long a test waits for what must come.
const Eternal = time.Minute

const isProgram = "HEARTWHEEL_TEST_RUNS_MAIN"

// AsProgram in the environment makes a test binary the program. Start sees to it; other ways to start
// the binary, with an environment of their own, need it there.
const AsProgram = isProgram + "=1"

// AtOnce in the environment has a program with the race detector end at once. It would sleep for a second.
const AtOnce = "GORACE=atexit_sleep_ms=0"

// Main is for TestMain: it runs the program if this process is to be it, and otherwise the tests, with
// testmain.
func Main(m *testing.M, program func()) {
	Program(program)
	testmain.Run(m)
}

// Program is for a TestMain that runs the tests in its own way: it runs the program if this process is to be
// it. Otherwise it sees to it that programs hear of SIGHUP, and returns.
func Program(program func()) {
	if os.Getenv(isProgram) != "" {
		program()
		os.Exit(0) // and not the tests
	}
	if signal.Ignored(syscall.SIGHUP) { // as after nohup, and programs would ignore it as well
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}

// Start starts a command line ending in the test binary, as the program; without Env it has the test's
// environment. Its stderr goes to the log, to be shown if the test fails. The end of the test kills
// it. Until then wait waits for its end, and returns how it was.
func Start(t *testing.T, cmd *exec.Cmd) (log *logtest.Log, wait func() error) {
	t.Helper()
	log = new(logtest.Log)
	cmd.Stderr = log
	cmd.Env = append(cmd.Environ(), AsProgram, AtOnce)
	require.NoError(t, cmd.Start())
	var how error // it has ended
	ended := make(chan struct{})
	go func() { how = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		log.Judge(t, cmd.Args)
	})
	return log, func() error {
		select {
		case <-ended:
			return how
		case <-time.After(Eternal):
			return errors.New("it does not end")
		}
	}
}
