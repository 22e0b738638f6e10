package sqlite

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// stepped is two engines on one file. By a clock an hour ahead, the other engine has leased task x.
type stepped struct {
	*testing.T
	e, other *Engine
}

func newStepped(t *testing.T) *stepped {
	r := &stepped{T: t, e: openInside(t)}
	var path string
	_, err := one(t.Context(), r.e.reader, "SELECT file FROM pragma_database_list", nil, &path)
	require.NoError(t, err)
	r.other, err = Open(path, Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.other.Close()) })
	r.lease("x")
	require.NoError(t, r.e.write(t.Context(), func(s *session) error {
		_, err := s.ExecContext(t.Context(), "UPDATE hw_tasks SET at = at + 3600000")
		return err
	}))
	return r
}

// lease leases a task.
func (r *stepped) lease(id string) {
	slots := []int{engine.Slot(id, engine.DefaultSlots)}
	_, err := r.other.Set(r.Context(), []engine.Task{{Topic: "t", ID: id}})
	require.NoError(r, err)
	batch, err := r.other.Lease(r.Context(), engine.Ask{Topic: "t", Node: "n", Max: 1, Lease: time.Minute, Slots: slots})
	require.NoError(r, err)
	require.Len(r, batch.Leased, 1)
}

// meanwhile leases task y while e waits for its turn. Before that, e has seen a reason to write.
func (r *stepped) meanwhile(write func(context.Context) error) {
	r.e.lock <- struct{}{}
	written := make(chan error)
	go func() { written <- write(r.Context()) }()
	synctest.Wait()
	time.Sleep(10 * time.Second)
	r.lease("y")
	<-r.e.lock
	require.NoError(r, <-written)
}

// all reads numbers as times.
func (r *stepped) all(query string) (times []time.Time) {
	numbers, err := column[int64](r.Context(), r.e.reader, query)
	require.NoError(r, err)
	for _, milli := range numbers {
		times = append(times, time.UnixMilli(milli))
	}
	return times
}

func TestMaintenanceThatWaitsForItsTurnShortensNoLeaseMadeMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStepped(t)
		r.meanwhile(func(ctx context.Context) error {
			_, err := r.e.Maintain(ctx)
			return err
		})
		end := time.Now().Add(time.Minute)
		require.Equal(t, []time.Time{end, end}, r.all("SELECT at FROM hw_tasks"))
	})
}

// A task's action time is in the future again once the clock was stepped back. Its lease ends in its own time.
func TestALeaseThatEndsBeforeTheActionTimeIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openInside(t)
		set, err := e.Set(t.Context(), []engine.Task{{Topic: "t", ID: "x"}})
		require.NoError(t, err)
		ask := engine.Ask{Topic: "t", Node: "n", Max: 1, Lease: time.Second}
		batch, err := e.Lease(t.Context(), ask)
		require.NoError(t, err)
		require.Len(t, batch.Leased, 1)
		require.NoError(t, e.write(t.Context(), func(s *session) error {
			_, err := s.ExecContext(t.Context(), "UPDATE hw_tasks SET due = due + 3600000")
			return err
		}))
		ends := batch.Leased[0].Until
		batch, err = e.Lease(t.Context(), ask)
		require.NoError(t, err)
		require.True(t, batch.Next.Equal(ends), "%v, must be %v", batch.Next, ends)
		page, err := e.ScanBefore(t.Context(), "t", nil, ends.Add(time.Second), "", 10)
		require.NoError(t, err)
		require.Equal(t, []engine.Wanted{{ID: "x", Version: set[0].Version, At: ends}}, page.Wanted)
		time.Sleep(time.Second)
		claimed, err := e.Claim(t.Context(), "t", "n", page.Wanted, time.Second)
		require.NoError(t, err)
		require.True(t, claimed[0].OK, "it is due at %v", claimed[0].At)
		require.True(t, claimed[0].Leased.Again)
	})
}
