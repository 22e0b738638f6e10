package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// foreign returns so many ids in slot 0 of two, and one in slot 1.
func foreign(n int) (others []string, own string) {
	for i := 0; len(others) < n || own == ""; i++ {
		if id := fmt.Sprint(i); engine.Slot(id, 2) == 1 {
			own = id
		} else if len(others) < n {
			others = append(others, id)
		}
	}
	return others, own
}

func setDue(t *testing.T, e *postgres.Engine, ids ...string) {
	tasks := make([]engine.Task, len(ids))
	for i, id := range ids {
		tasks[i] = engine.Task{ID: id, Due: time.Unix(1, 0)}
	}
	set(t, e, tasks...)
}

func TestWhatWasSettledIsToldThoughTheTasksOfOthersCanNotBeLeased(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders", Slots: 2})
	others, own := foreign(postgres.Window)
	setDue(t, e, own)
	ask := engine.Ask{Topic: "orders", Node: "n", Max: 7, Lease: time.Minute, Slots: []int{1}}
	batch, err := e.Lease(t.Context(), ask)
	require.NoError(t, err)
	require.Len(t, batch.Leased, 1)
	setDue(t, e, others...)
	_, err = newPool(t).Exec(t.Context(), fmt.Sprintf(`
		CREATE FUNCTION %[1]s.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON %[1]s.hw_tasks FOR EACH ROW WHEN (NEW.state = 2) EXECUTE FUNCTION %[1]s.refuse()`, schemaOf(e)))
	require.NoError(t, err)
	ask.Settle = []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Done}}
	batch, err = e.Lease(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, batch.Settled)
	require.Equal(t, engine.None, get(t, e, own).State)
}

// A peek before each batch would be wasted while there is a backlog, and the topic is read again meanwhile.
func TestATopicReadAgainIsStillBusy(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	setDue(t, e, "1", "2", "3")
	require.Len(t, leaseBatch(t, e, 1, time.Minute).Leased, 1)
	time.Sleep(postgres.Fresh)
	busy, err := e.Busy(t.Context(), "orders")
	require.NoError(t, err)
	require.True(t, busy)
	require.Len(t, leaseBatch(t, e, 3, time.Minute).Leased, 2)
	busy, err = e.Busy(t.Context(), "orders")
	require.NoError(t, err)
	require.False(t, busy)
}

// A transaction of somebody's own may hold a due task for long. A node would ask for it all the time.
func TestADueTaskThatIsLockedIsAskedForAfterAWait(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders", Slots: 2})
	_, own := foreign(1)
	setDue(t, e, own)
	for _, slots := range [][]int{nil, {1}} {
		ask := engine.Ask{Topic: "orders", Node: "n", Max: 7, Lease: time.Minute, Slots: slots}
		tx, err := newPool(t).Begin(t.Context())
		require.NoError(t, err)
		_, err = e.MoveTx(t.Context(), tx, []engine.Move{{Key: key(own), Due: time.Unix(2, 0)}})
		require.NoError(t, err)
		batch, err := e.Lease(t.Context(), ask)
		require.NoError(t, err)
		require.Empty(t, batch.Leased)
		require.Equal(t, 20*time.Millisecond, batch.Next.Sub(batch.Now))
		require.NoError(t, tx.Rollback(t.Context()))
		batch, err = e.Lease(t.Context(), ask)
		require.NoError(t, err)
		require.Len(t, batch.Leased, 1)
		_, err = e.Lease(t.Context(), engine.Ask{Topic: "orders", Settle: []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Pending}}})
		require.NoError(t, err)
	}
}

// trips counts the batches that deal with tasks, other than the looks in the background. A batch is a round trip.
type trips struct {
	atomic.Int64
	look atomic.Pointer[string]
}

func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		if look := c.look.Load(); look != nil && query.SQL != *look && strings.Contains(query.SQL, "hw_tasks") {
			c.Add(1)
			break
		}
	}
	return ctx
}

func (c *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (c *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (c *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestALoneDueTaskTakesThreeRoundTrips(t *testing.T) {
	cfg, err := pgxpool.ParseConfig(sharedURL(t))
	require.NoError(t, err)
	c := new(trips)
	cfg.ConnConfig.Tracer = c
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	e, err := postgres.New(t.Context(), pool, postgres.Config{Schema: newSchema()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 2}, false)
	require.NoError(t, err)
	others, own := foreign(1)
	later := in(time.Hour)
	for n, slots := range [][]int{nil, {1}, nil, {1}} {
		setDue(t, e, own)
		next := later
		if slots != nil {
			next = time.Time{}
		}
		set(t, e, engine.Task{ID: others[0], Due: later})
		look := e.Statements().Look
		c.look.Store(&look)
		c.Store(0)
		ask := engine.Ask{Topic: "orders", Node: "n", Max: 1 + n/2, Lease: time.Minute, Slots: slots}
		batch, err := e.Lease(t.Context(), ask)
		require.NoError(t, err)
		require.Len(t, batch.Leased, 1)
		require.Equal(t, batch.Leased[0].Until, batch.Next, "the lease ends before anything else is due")
		ask.Settle = []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Done}}
		batch, err = e.Lease(t.Context(), ask)
		require.NoError(t, err)
		require.Equal(t, []bool{true}, batch.Settled)
		require.True(t, next.Equal(batch.Next), batch.Next)
		require.EqualValues(t, 3, c.Load(), "a look, a lease and an outcome; each with the time of what is next")
	}
}
