package cli

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
)

func TestWorkRunsAProgramForEachTask(t *testing.T) {
	s := start(t, nil)
	require.Contains(t, s.ok("topic", "jobs", "-callback", "http://example.com/"), "http://example.com/")
	require.Regexp(t, `callback +pulled`, s.ok("topic", "jobs", "-pull", "-retain", "1h", "-retries", "-1"))
	require.Regexp(t, `jobs .* pulled`, s.ok("topics"))
	s.ok("set", "jobs", "good", "-payload", `{"n":1}`)
	s.ok("set", "jobs", "odd\u009b2J")
	s.ok("set", "jobs", "bad", "-payload", `{"n":2}`)
	s.ok("set", "jobs", "slow", "-after", "500ms", "-payload", `{"n":3}`)
	file := filepath.Join(t.TempDir(), "seen")
	program := `cat >>` + file + `; echo " $HEARTWHEEL_TOPIC/$HEARTWHEEL_ID $HEARTWHEEL_ATTEMPT" >>` + file + `
case $HEARTWHEEL_ID in
bad) head -c 5000 /dev/zero | tr '\0' x >&2; echo "no such order" >&2; exit 3;;
slow) exec sleep 1000;;
esac`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs strings.Builder
	exit := make(chan int, 1)
	go func() {
		exit <- Run(ctx, []string{"work", "jobs", "-max", "2", "-exec", program}, s.getenv, &out, &errs)
	}()
	state := func(id string) timeout.Task {
		task, err := s.center.Get(t.Context(), timeout.Key{Topic: "jobs", ID: id})
		require.NoError(t, err)
		return task
	}
	for id, want := range map[string]timeout.State{"good": timeout.Done, "odd\u009b2J": timeout.Done, "bad": timeout.Dead, "slow": timeout.Running} {
		require.Eventually(t, func() bool { return state(id).State == want }, eternal, 10*time.Millisecond, id)
	}
	require.Eventually(t, func() bool {
		seen, _ := os.ReadFile(file)
		return strings.Contains(string(seen), `{"n":3} jobs/slow 1`)
	}, eternal, 10*time.Millisecond, "the program runs")
	require.Regexp(t, `^x+no such order$`, state("bad").Error)
	cancel()
	require.Zero(t, <-exit, errs.String())
	// The last pull of the worker can get it once more. If that answer comes too late, the server hands it
	// back, a little after the end.
	require.Eventually(t, func() bool { return state("slow").State == timeout.Pending }, eternal, 10*time.Millisecond, "an interrupted task is handed back")
	require.Zero(t, state("slow").Attempts)
	require.Contains(t, out.String(), "jobs/good done, attempt 1\n")
	require.Contains(t, out.String(), "jobs/odd\uFFFD2J done, attempt 1\n", "an id does not steer the terminal")
	require.Contains(t, out.String(), "jobs/slow interrupted, attempt 1\n")

	for _, args := range [][]string{{"work", "jobs"}, {"work", "jobs", "-exec", "true", "-json"}, {"work"}} {
		exit, _, _ := s.run(args...)
		require.Equal(t, ExitUsage, exit, args)
	}
	for _, args := range [][]string{{"work", "nobody", "-exec", "true"}, {"work", "!", "-exec", "true"}, {"work", "jobs", "-exec", "true", "-max", "-1"}} {
		exit, _, stderr := s.run(args...)
		require.Equal(t, ExitFailure, exit, stderr)
	}
}

// untilThere returns a context that ends when there is a file.
func untilThere(t *testing.T, file string) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(file); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return ctx
}

// Its exit code counts, whatever came meanwhile.
func TestAProgramThatEndsWellIsDone(t *testing.T) {
	for name, program := range map[string]string{
		"its child goes on":       `sleep 30 & exit 0`,
		"it was told to end":      `trap 'exit 0' TERM; touch $BEGUN; while :; do sleep 0.05; done`,
		"and needs time for that": `trap 'sleep 1; exit 0' TERM; touch $BEGUN; while :; do sleep 0.05; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := filepath.Join(t.TempDir(), "begun")
			ctx := untilThere(t, begun)
			require.Equal(t, timeoutclient.Outcome{}, run(ctx, strings.ReplaceAll(program, "$BEGUN", begun), timeoutclient.Leased{}))
		})
	}
}

// What sh has started would go on beside another attempt.
func TestAnInterruptedProgramLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	late := filepath.Join(dir, "late")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(500*time.Millisecond, cancel)
	outcome := run(ctx, `(trap '' TERM; sleep 15; echo late >`+late+`) </dev/null >/dev/null 2>&1; true`, timeoutclient.Leased{})
	require.Equal(t, timeoutclient.Outcome{Returned: true}, outcome)
	time.Sleep(6 * time.Second)
	require.NoFileExists(t, late)
}

// It has its time to clean up, although sh does not wait for it.
func TestAnInterruptedProgramHasTimeToEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begun, clean := filepath.Join(dir, "begun"), filepath.Join(dir, "clean")
	ctx := untilThere(t, begun)
	program := `sh -c 'trap "sleep 1; touch ` + clean + `; exit 0" TERM; touch ` + begun + `; while :; do sleep 0.05; done' >/dev/null 2>&1; true`
	require.Equal(t, timeoutclient.Outcome{Returned: true}, run(ctx, program, timeoutclient.Leased{}))
	require.FileExists(t, clean)
}

// Nobody has told it to end, and the next attempt begins.
func TestAProgramThatFailsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begun, clean, late := filepath.Join(dir, "begun"), filepath.Join(dir, "clean"), filepath.Join(dir, "late")
	program := `sh -c 'trap "touch ` + clean + `; exit 0" TERM; touch ` + begun + `; while :; do sleep 0.05; done' </dev/null >/dev/null 2>&1 &
(sleep 3; touch ` + late + `) </dev/null >/dev/null 2>&1 &
while [ ! -e ` + begun + ` ]; do sleep 0.05; done
echo "no such order" >&2; exit 3`
	require.Equal(t, timeoutclient.Outcome{Error: "no such order"}, run(t.Context(), program, timeoutclient.Leased{}))
	require.FileExists(t, clean)
	time.Sleep(4 * time.Second)
	require.NoFileExists(t, late)
}

// It has failed, and what it has left is still being ended.
func TestAFailureBeforeTheEndOfWorkIsOne(t *testing.T) {
	t.Parallel()
	failed := filepath.Join(t.TempDir(), "failed")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for {
			if _, err := os.Stat(failed); err == nil {
				time.Sleep(time.Second) // sh has ended
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	program := `(trap "" TERM; sleep 3) </dev/null >/dev/null 2>&1 & echo "no such order" >&2; touch ` + failed + `; exit 3`
	require.Equal(t, timeoutclient.Outcome{Error: "no such order"}, run(ctx, program, timeoutclient.Leased{}))
}

func TestAProgramThatIsNotBegunIsHandedBack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, timeoutclient.Outcome{Returned: true}, run(ctx, "true", timeoutclient.Leased{}))
}

// JSON makes more bytes of a half of a character, and the server cuts the end of a text that is too long.
func TestAnErrorBeginsWithAWholeCharacter(t *testing.T) {
	outcome := run(t.Context(), `for i in $(seq 600); do printf 'ä' >&2; done; printf x >&2; exit 1`, timeoutclient.Leased{})
	require.Equal(t, strings.Repeat("ä", (engine.MaxError-1)/2)+"x", outcome.Error)
}

func TestWorkSaysThatALeaseWasLost(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	require.Equal(t, "done", said(ctx, timeoutclient.Outcome{}))
	cancel(timeoutclient.ErrLeaseLost)
	require.Equal(t, "done, but its lease was lost", said(ctx, timeoutclient.Outcome{}))
}

// Its programs print there, too, so each of them would fail.
func TestWorkEndsWhenNobodyReadsWhatItSays(t *testing.T) {
	s := start(t, nil)
	s.ok("topic", "jobs", "-pull", "-retain", "1h")
	s.ok("set", "jobs", "1")
	var errs strings.Builder
	exit := Run(t.Context(), []string{"work", "jobs", "-exec", "true"}, s.getenv, unread{}, &errs)
	require.Equal(t, ExitFailure, exit)
	require.Equal(t, "timeoutd: "+syscall.EPIPE.Error()+"\n", errs.String())
	require.Regexp(t, `jobs/1 +done`, s.ok("get", "jobs", "1"), "it is told of")
}

// unread is a pipe without a reader.
type unread struct{}

func (unread) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// awayEngine has no topics to tell of.
type awayEngine struct{ engine.Engine }

func (awayEngine) Topics(context.Context) ([]engine.Topic, error) {
	return nil, errors.New("it is away")
}

func TestStatsFailIfTheEngineIsAway(t *testing.T) {
	inner, err := memory.New(memory.Config{})
	require.NoError(t, err)
	defer inner.Close()
	center, err := timeout.New(awayEngine{inner}, timeout.Config{})
	require.NoError(t, err)
	defer center.Close()
	handler, err := api.New(center, api.Config{})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	defer server.Close()
	s := &shell{t, center, map[string]string{"TIMEOUTD_URL": server.URL}}
	for _, args := range [][]string{{"stats"}, {"stats", "-json"}} {
		exit, stdout, stderr := s.run(args...)
		require.Equal(t, ExitFailure, exit, "%s", args)
		require.Contains(t, stdout, "this server's log has the reason")
		require.Contains(t, stderr, "the engine does not answer")
	}
}
