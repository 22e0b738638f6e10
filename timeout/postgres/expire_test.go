package postgres_test

import (
	"fmt"
	"testing"
	"time"

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
	batch, err := e.Expire(t.Context(), ask)
	require.NoError(t, err)
	require.Len(t, batch.Leased, 1)
	setDue(t, e, others...)
	_, err = newPool(t).Exec(t.Context(), fmt.Sprintf(`
		CREATE FUNCTION %[1]s.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON %[1]s.hw_tasks FOR EACH ROW WHEN (NEW.state = 2) EXECUTE FUNCTION %[1]s.refuse()`, schemaOf(e)))
	require.NoError(t, err)
	ask.Settle = []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Done}}
	batch, err = e.Expire(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, []bool{true}, batch.Settled)
	require.Equal(t, engine.None, get(t, e, own).State)
}

// A peek before each batch would be wasted while there is a backlog, and the topic is read again meanwhile.
func TestATopicReadAgainIsStillBusy(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	setDue(t, e, "1", "2", "3")
	require.Len(t, expire(t, e, 1, time.Minute).Leased, 1)
	time.Sleep(postgres.Fresh)
	busy, err := e.Busy(t.Context(), "orders")
	require.NoError(t, err)
	require.True(t, busy)
	require.Len(t, expire(t, e, 3, time.Minute).Leased, 2)
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
		batch, err := e.Expire(t.Context(), ask)
		require.NoError(t, err)
		require.Empty(t, batch.Leased)
		require.Equal(t, 20*time.Millisecond, batch.Next.Sub(batch.Now))
		require.NoError(t, tx.Rollback(t.Context()))
		batch, err = e.Expire(t.Context(), ask)
		require.NoError(t, err)
		require.Len(t, batch.Leased, 1)
		_, err = e.Expire(t.Context(), engine.Ask{Topic: "orders", Settle: []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Pending}}})
		require.NoError(t, err)
	}
}
