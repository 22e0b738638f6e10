package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// child is the URL of the database for a process that is killed.
const child = "WEBHOOKS_CHILD"

func TestMain(m *testing.M) {
	if url := os.Getenv(child); url != "" {
		if err := run(context.Background(), url, "127.0.0.1:0"); err != nil {
			panic(err)
		}
		return
	}
	testserver.Main(m)
}

// subscriber refuses some calls, and remembers the last change of each object that it was told.
type subscriber struct {
	mu   sync.Mutex
	last map[string]string
	*httptest.Server
}

func newSubscriber(t *testing.T) *subscriber {
	s := &subscriber{last: make(map[string]string)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rand.IntN(4) == 0 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last[r.FormValue("id")] = r.FormValue("changes")
	}))
	t.Cleanup(s.Close)
	return s
}

// start starts the program, and returns it with its address.
func start(t *testing.T, database string) (*exec.Cmd, string) {
	self, err := os.Executable()
	require.NoError(t, err)
	program := exec.CommandContext(t.Context(), self)
	program.Env = append(os.Environ(), child+"="+database)
	log, err := program.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if _, addr, found := strings.Cut(lines.Text(), "listening at "); found {
			go func() {
				for lines.Scan() {
				}
			}()
			return program, addr
		}
	}
	require.FailNow(t, "the program does not listen")
	return nil, ""
}

// After each kill the objects told of and the tasks that have ended agree: the work and its end are one commit. With
// HEARTWHEEL_LONG_FAULTS there are fifty.
func TestWorkAndTheEndOfItsTaskAgreeAfterKills(t *testing.T) {
	database := testserver.Database(t)
	db, err := pgxpool.New(t.Context(), database)
	require.NoError(t, err)
	defer db.Close()
	hears := newSubscriber(t)
	change := func(addr, id string) bool {
		query := url.Values{"hook": {hears.URL}, "retries": {"1000"}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("http://%s/objects/%s?%s", addr, id, query.Encode()), nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}
	agree := func() {
		var twice, both, neither int
		// The last version of an object is told of, or has a task, and never both. None is told of twice.
		require.NoError(t, db.QueryRow(t.Context(), `
			WITH last AS (SELECT o.id, t.state, EXISTS (SELECT FROM told w WHERE w.id = o.id AND w.changes = o.changes) AS told,
				EXISTS (SELECT FROM told w WHERE w.id = t.id AND w.version = t.version) AS this
				FROM objects o LEFT JOIN hw_tasks t ON t.id = o.id)
			SELECT (SELECT count(*) FROM (SELECT FROM told GROUP BY id, version HAVING count(*) > 1) more),
				count(*) FILTER (WHERE this), count(*) FILTER (WHERE NOT told AND state IS NULL) FROM last`).Scan(&twice, &both, &neither))
		require.Zero(t, twice, "tasks did their work twice")
		require.Zero(t, both, "tasks have done their work, and go on")
		require.Zero(t, neither, "tasks have ended without their work")
	}
	kills := 10
	if os.Getenv("HEARTWHEEL_LONG_FAULTS") != "" {
		kills = 50
	}
	for kill := range kills {
		program, addr := start(t, database)
		end := time.Now().Add(time.Duration(rand.IntN(800)) * time.Millisecond)
		for n := 0; time.Now().Before(end); n++ {
			change(addr, fmt.Sprint("object-", kill, "-", rand.IntN(20)))
			time.Sleep(10 * time.Millisecond)
		}
		require.NoError(t, program.Process.Kill())
		_ = program.Wait()
		agree()
	}
	program, _ := start(t, database)
	defer func() {
		require.NoError(t, program.Process.Kill())
		_ = program.Wait()
	}()
	require.Eventually(t, func() bool {
		var left int
		require.NoError(t, db.QueryRow(t.Context(), "SELECT count(*) FROM hw_tasks").Scan(&left))
		return left == 0
	}, 5*time.Minute, 100*time.Millisecond)
	agree()
	rows, err := db.Query(t.Context(), "SELECT id, changes::text FROM objects")
	require.NoError(t, err)
	objects := 0
	hears.mu.Lock()
	defer hears.mu.Unlock()
	for rows.Next() {
		var id, changes string
		require.NoError(t, rows.Scan(&id, &changes))
		require.Equal(t, changes, hears.last[id], id)
		objects++
	}
	require.NoError(t, rows.Err())
	require.Greater(t, objects, kills)
}
