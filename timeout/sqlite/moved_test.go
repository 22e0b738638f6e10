package sqlite_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// moveAway sets tasks due at an instant, and moves them an hour away. They keep their positions.
func (r *rig) moveAway(n int, due time.Time) {
	r.Helper()
	tasks, moves := make([]engine.Task, n), make([]engine.Move, n)
	for i := range n {
		id := fmt.Sprint("moved-", i)
		tasks[i], moves[i] = engine.Task{ID: id, Due: due}, engine.Move{Key: key(id), After: time.Hour}
	}
	r.set(tasks...)
	answers, err := r.Move(r.Context(), moves)
	require.NoError(r.T, err)
	for _, answer := range answers {
		require.NoError(r.T, answer.Err)
	}
}

// More moved tasks stand before it than one transaction files again.
func TestWhatIsDueBehindMovedTasksIsFoundAtOnce(t *testing.T) {
	r := newRig(t, engine.Topic{Pull: true})
	due := time.Now().Add(time.Second)
	r.moveAway(5000, due)
	r.set(engine.Task{ID: "due", Due: due.Add(time.Millisecond)})
	time.Sleep(time.Until(due.Add(10 * time.Millisecond)))
	center, err := timeout.New(r.Engine, timeout.Config{})
	require.NoError(t, err)
	leased, err := center.Pull(t.Context(), timeout.Pull{Topic: "t"})
	require.NoError(t, err)
	require.Len(t, leased, 1)
	require.Equal(t, "due", leased[0].ID)
}

func TestAScanFilesMovedTasksAgain(t *testing.T) {
	r := newRig(t, engine.Topic{})
	due := time.Now().Add(100 * time.Millisecond)
	r.moveAway(10, due)
	r.set(engine.Task{ID: "due", Due: due}, engine.Task{ID: "soon", Due: due})
	_, err := r.Move(t.Context(), []engine.Move{{Key: key("soon"), After: 2 * time.Second}})
	require.NoError(t, err)
	time.Sleep(time.Until(due.Add(10 * time.Millisecond)))
	page, err := r.ScanBefore(t.Context(), "t", nil, time.Now().Add(5*time.Second), "", 1000)
	require.NoError(t, err)
	require.Len(t, page.Wanted, 2)

	db, err := sql.Open("sqlite", filepath.ToSlash("file:"+(&url.URL{Path: r.path}).EscapedPath()))
	require.NoError(t, err)
	defer db.Close()
	var moved int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM hw_tasks WHERE due > at").Scan(&moved))
	require.Equal(t, 1, moved, "soon, which this scan has seen")
	for i := range 10 {
		require.Greater(t, time.Until(r.get(fmt.Sprint("moved-", i)).Due), 50*time.Minute)
	}
}

func TestAListOfMovedTasksIsCompleteAndInOrder(t *testing.T) {
	r := newRig(t, engine.Topic{})
	r.moveAway(600, time.Now().Add(time.Minute))
	want := map[string]bool{"between": true, "last": true}
	r.set(engine.Task{ID: "between", After: 30 * time.Minute}, engine.Task{ID: "last", After: 2 * time.Hour})
	_, err := r.Move(t.Context(), []engine.Move{{Key: key("moved-7"), After: 29 * time.Minute}, {Key: key("moved-9"), After: 31 * time.Minute}})
	require.NoError(t, err)
	for i := range 600 {
		want[fmt.Sprint("moved-", i)] = true
	}
	for _, limit := range []int{7, 1000} {
		got, last := map[string]bool{}, time.Time{}
		query := engine.Query{Topic: "t", State: engine.Pending, Limit: limit}
		for more := true; more; more = query.Cursor != "" {
			page, err := r.List(t.Context(), query)
			require.NoError(t, err)
			require.True(t, len(page.Tasks) == limit || page.Next == "", "it is full")
			for _, task := range page.Tasks {
				require.False(t, got[task.ID], "%s is there twice", task.ID)
				require.False(t, task.Until.Before(last))
				got[task.ID], last = true, task.Until
			}
			query.Cursor = page.Next
		}
		require.Equal(t, want, got)
	}
}
