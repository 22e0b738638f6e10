package sqlite_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

// childPath is the variable with the path of a file. It makes the test binary a child. The child
// uses the file, and reports each answer until it is killed.
const childPath = "TIMEOUT_SQLITE_CHILD"

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		sqlite.ShortLog()
	}
	if path := os.Getenv(childPath); path != "" {
		if err := child(path, os.Getenv("TIMEOUT_SQLITE_NAME")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child sets tasks, leases tasks of any child and finishes half of the leased ones. It writes a
// line for each acknowledged step, until nobody reads them.
func child(path, name string) error {
	e, err := sqlite.Open(path, sqlite.Config{})
	if err != nil {
		return err
	}
	defer e.Close()
	ctx := context.Background()
	if _, err := e.SetTopic(ctx, engine.Topic{Name: "t"}, true); err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for round := 0; ; round++ {
		tasks := make([]engine.Task, 50)
		for i := range tasks {
			tasks[i] = engine.Task{Topic: "t", ID: fmt.Sprintf("%s-%d-%d", name, round, i)}
		}
		answers, err := e.Set(ctx, tasks)
		if err != nil {
			return err
		}
		for i, answer := range answers {
			fmt.Fprintf(out, "set %s %d\n", tasks[i].ID, answer.Version)
		}
		batch, err := e.Lease(ctx, engine.Ask{Topic: "t", Node: name, Max: 40, Lease: time.Hour})
		if err != nil {
			return err
		}
		var settle []engine.Outcome
		for i, leased := range batch.Leased {
			fmt.Fprintf(out, "leased %s %d\n", leased.ID, leased.Token.Lease)
			if i%2 == 0 {
				settle = append(settle, engine.Outcome{Token: leased.Token, As: engine.Done})
				fmt.Fprintf(out, "settling %s 0\n", leased.ID)
			}
		}
		if err := out.Flush(); err != nil { // a kill can come after the settling and before its report
			return err
		}
		batch, err = e.Lease(ctx, engine.Ask{Topic: "t", Node: name, Settle: settle})
		if err != nil {
			return err
		}
		for i, ok := range batch.Settled {
			fmt.Fprintf(out, "settled %s %d\n", settle[i].Token.ID, map[bool]int{true: 1}[ok])
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// word is a line of a child.
type word struct {
	what, id string
	number   int64
}

// runChild runs a child and kills it after some lines. It returns the lines.
func runChild(t *testing.T, path, name string, lines int) []word {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path, "TIMEOUT_SQLITE_NAME="+name)
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		t.Error("starting a child", err)
		return nil
	}
	var words []word
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) != 3 {
			break // cut off
		}
		number, _ := strconv.ParseInt(fields[2], 10, 64)
		words = append(words, word{fields[0], fields[1], number})
		if len(words) == lines {
			_ = cmd.Process.Kill() // SIGKILL, while it works on
		}
	}
	_ = cmd.Wait()
	if len(words) < lines {
		t.Errorf("the child ended by itself after %d lines: %s", len(words), failure.String())
	}
	return words
}

func TestProcessesThatAreKilledLoseNothingThatWasAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	const rounds, children = 3, 2
	var mu sync.Mutex
	var words []word
	for round := range rounds {
		var all sync.WaitGroup
		for n := range children {
			all.Go(func() {
				some := runChild(t, path, fmt.Sprintf("%c%d", 'a'+n, round), 600+333*round+51*n)
				mu.Lock()
				defer mu.Unlock()
				words = append(words, some...)
			})
		}
		all.Wait()
	}
	e := openEngine(t, path)
	versions, leases := map[int64]string{}, map[string]int64{}
	set, settling, settled := map[string]int64{}, map[string]bool{}, map[string]bool{}
	for _, w := range words {
		switch w.what {
		case "set":
			require.Empty(t, versions[w.number], "version %d of %s was given before", w.number, w.id)
			versions[w.number] = w.id
			set[w.id] = w.number
		case "leased":
			require.Zero(t, leases[w.id], "%s was leased twice", w.id)
			leases[w.id] = w.number
		case "settling":
			settling[w.id] = true
		case "settled":
			require.EqualValues(t, 1, w.number)
			settled[w.id] = true
		}
	}
	require.Greater(t, len(set), 1000)
	require.NotEmpty(t, settled)
	for id, version := range set {
		tasks, err := e.Get(t.Context(), []engine.Key{key(id)})
		require.NoError(t, err)
		state := tasks[0].State
		switch {
		case settled[id]:
			require.Equal(t, engine.None, state, id)
		case settling[id]:
			require.Contains(t, []engine.State{engine.None, engine.Running}, state, id)
		case leases[id] != 0:
			require.Equal(t, engine.Running, state, id)
			require.Equal(t, version, tasks[0].Version)
		default: // perhaps leased by a child killed before its report
			require.Contains(t, []engine.State{engine.Pending, engine.Running}, state, id)
		}
	}
	answers, err := e.Set(t.Context(), []engine.Task{{Topic: "t", ID: "last"}})
	require.NoError(t, err)
	for version := range versions {
		require.Greater(t, answers[0].Version, version)
	}
}
