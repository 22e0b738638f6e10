package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// childEnv has the URL, the schema and a prefix of ids for a child process. The child sets and
// consumes tasks until it is killed, and prints the acknowledged ones.
const childEnv = "TIMEOUT_POSTGRES_CHILD"

func child() {
	var url, schema, prefix string
	if _, err := fmt.Sscan(os.Getenv(childEnv), &url, &schema, &prefix); err != nil {
		panic(err)
	}
	ctx := context.Background()
	e, err := postgres.Open(ctx, url, postgres.Config{Schema: schema})
	if err != nil {
		panic(err)
	}
	var settle []engine.Outcome
	for n := 0; ; n++ {
		tasks := make([]engine.Task, 20)
		for i := range tasks {
			tasks[i] = engine.Task{Topic: "orders", ID: fmt.Sprintf("%s-%d-%d", prefix, n, i)}
		}
		answers, err := e.Set(ctx, tasks)
		if err != nil {
			panic(err)
		}
		lines := new(strings.Builder)
		for i, answer := range answers {
			fmt.Fprintln(lines, "set", tasks[i].ID, answer.Version)
		}
		batch, err := e.Lease(ctx, engine.Ask{Topic: "orders", Node: prefix, Max: 15, Lease: 500 * time.Millisecond, Settle: settle})
		if err != nil {
			panic(err)
		}
		for i, ok := range batch.Settled {
			if ok {
				fmt.Fprintln(lines, "done", settle[i].Token.ID, settle[i].Token.Lease)
			}
		}
		settle = nil
		for _, leased := range batch.Leased {
			settle = append(settle, engine.Outcome{Token: leased.Token, As: engine.Done})
		}
		os.Stdout.WriteString(lines.String())
	}
}

// runChild runs the test binary as a child until it has told of so many lines and for a while,
// and kills it.
func runChild(t *testing.T, schema, prefix string, lines int) (set, done map[string]int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{sharedURL(t), schema, prefix}, " "))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	set, done = map[string]int64{}, map[string]int64{}
	scanner := bufio.NewScanner(out)
	for n := 0; scanner.Scan(); n++ {
		var verb, id string
		var number int64
		if _, err := fmt.Sscan(scanner.Text(), &verb, &id, &number); err != nil {
			break // the last line was cut
		}
		map[string]map[string]int64{"set": set, "done": done}[verb][id] = number
		if n == lines {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait()
	require.Greater(t, len(set), 100)
	return set, done
}

func TestNothingThatWasAcknowledgedIsLostWhenAProcessIsKilled(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	schema := schemaOf(e)
	numbers := map[int64]string{}
	left := map[string]bool{}
	for round := range 3 {
		set, done := runChild(t, schema, fmt.Sprint("child-", round), 500+round*137)
		for id, version := range set {
			require.Empty(t, numbers[version], "version of %s", id)
			numbers[version] = id
			left[id] = true
		}
		for id := range done {
			delete(left, id)
		}
	}
	require.Greater(t, len(left), 20)
	deadline := time.Now().Add(time.Minute)
	for len(left) > 0 {
		require.False(t, time.Now().After(deadline), "%d tasks are lost", len(left))
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "last", Max: 1000, Lease: time.Minute})
		require.NoError(t, err)
		for _, leased := range batch.Leased {
			delete(left, leased.ID)
		}
		// What was settled by the child, with no word of it, is not there any more.
		for id := range left {
			tasks, err := e.Get(t.Context(), []engine.Key{{Topic: "orders", ID: id}})
			require.NoError(t, err)
			if tasks[0].State == engine.None {
				left[id] = false
			}
		}
		unknown := 0
		for _, there := range left {
			if !there {
				unknown++
			}
		}
		require.LessOrEqual(t, unknown, 3*15, "a child can be killed before it tells of one batch")
		if unknown == len(left) {
			return
		}
	}
}
