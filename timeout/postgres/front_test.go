package postgres_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
)

// lookFrom has the engine believe that there is no task before now.
func lookFrom(t *testing.T, e *postgres.Engine, ahead time.Duration) {
	t.Helper()
	now, err := e.Now(t.Context())
	require.NoError(t, err)
	require.NoError(t, e.LookFrom(t.Context(), "orders", now.Add(ahead).UnixMilli()))
}

// hold holds a transaction open that reads, as a backup does.
func hold(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(t.Context(), "SELECT 1")
	require.NoError(t, err)
	return tx
}

// pages returns how many pages a statement of the engine reads.
func pages(t *testing.T, pool *pgxpool.Pool, e *postgres.Engine, statement string, args ...any) int {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), e.Statements().Planner)
	require.NoError(t, err)
	var plan []byte
	require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+statement, args...).Scan(&plan))
	var parsed []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	require.NoError(t, json.Unmarshal(plan, &parsed))
	return parsed[0].Plan.Hit + parsed[0].Plan.Read
}

// The dead rows of what was leased stay as long as a transaction is open. A scan from the start reads them all.
func TestWhatATransactionHeldOpenElsewhereKeepsIsNotReadAgainAndAgain(t *testing.T) {
	const dead = 1000
	e := openTopic(t, engine.Topic{Name: "orders"})
	pool := newPool(t)
	hold(t, pool)
	tasks := make([]engine.Task, dead)
	for i := range tasks {
		tasks[i] = engine.Task{ID: fmt.Sprint(i), Payload: bytes.Repeat([]byte("x"), 1000)} // a few on a page
	}
	set(t, e, tasks...)
	for done := 0; done < dead; {
		batch := leaseBatch(t, e, 1000, time.Minute)
		var outcomes []engine.Outcome
		for _, leased := range batch.Leased {
			outcomes = append(outcomes, engine.Outcome{Token: leased.Token, As: engine.Done})
		}
		leaseBatch(t, e, 0, time.Minute, outcomes...)
		done += len(outcomes)
	}
	lookFrom(t, e, 0)
	front, err := e.Front(t.Context(), "orders")
	require.NoError(t, err)
	set(t, e, engine.Task{ID: "due"})
	unknown, sql := postgres.UnknownFront, e.Statements()
	for name, pages := range map[string]func(front []int64) int{
		"peek": func(front []int64) int { return pages(t, pool, e, sql.Peek, 1, nil, 0, nil, front) },
		"lease": func(front []int64) int {
			return pages(t, pool, e, sql.Lease, 1, 0, 10, 1000, "n", 10, 1000, front)
		},
		"leaseown": func(front []int64) int {
			return pages(t, pool, e, sql.LeaseOwn, 1, 0, 10, 1000, "n", 10, 1000, front, []int16{0}, 0, 10)
		},
	} {
		require.Greater(t, pages(unknown), 3*pages(front), name)
	}
	require.Equal(t, "due", leaseOne(t, e, time.Minute).ID)
}

func TestTheFrontFollowsTheClockAndTheFirstTaskByItself(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	set(t, e, engine.Task{ID: "locked"})
	tx, err := newPool(t).Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	moved, err := e.MoveTx(t.Context(), tx, []engine.Move{{Key: key("locked"), After: time.Hour}})
	require.NoError(t, err)
	require.Equal(t, engine.Pending, moved[0].Was)
	waiting := func() int64 {
		require.Empty(t, leaseBatch(t, e, 10, time.Minute).Leased)
		front, err := e.Front(t.Context(), "orders")
		require.NoError(t, err)
		return front[2]
	}
	locked := get(t, e, "locked").Due.UnixMilli()
	require.Eventually(t, func() bool { return waiting() == locked }, time.Minute, 10*time.Millisecond, "it is the first")
	require.NoError(t, tx.Commit(t.Context()))
	require.Eventually(t, func() bool { return waiting() > locked }, time.Minute, 10*time.Millisecond)
}

// Another node files tasks where this one has seen that there are none.
func TestATaskFiledInThePastIsFoundAtOnce(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	other := open(t, schemaOf(e))
	past := time.Unix(1, 0)
	for name, file := range map[string]func(id string){
		"set": func(id string) { set(t, other, engine.Task{ID: id, Due: past}) },
		"insert": func(id string) {
			tasks := []engine.Task{{ID: id, Due: past}}
			for i := range 200 { // a statement of its own is for large batches
				tasks = append(tasks, engine.Task{ID: fmt.Sprint(id, "-", i), After: time.Hour})
			}
			set(t, other, tasks...)
		},
		"set again": func(id string) {
			set(t, other, engine.Task{ID: id, After: time.Hour})
			lookFrom(t, e, 0)
			set(t, other, engine.Task{ID: id, Due: past})
		},
		"move": func(id string) {
			set(t, other, engine.Task{ID: id, After: time.Hour})
			lookFrom(t, e, 0)
			_, err := other.Move(t.Context(), []engine.Move{{Key: key(id), Due: past}})
			require.NoError(t, err)
		},
		"set that keeps the time of a run": func(id string) {
			set(t, other, engine.Task{ID: id, Due: past})
			leaseOne(t, other, time.Minute)
			lookFrom(t, e, 0)
			set(t, other, engine.Task{ID: id, After: time.Hour, KeepDue: true})
		},
		"retry": func(id string) {
			set(t, other, engine.Task{ID: id})
			leased := leaseOne(t, other, time.Minute)
			lookFrom(t, e, 0)
			leaseBatch(t, other, 0, time.Minute, engine.Outcome{Token: leased.Token, As: engine.Pending, Due: past})
		},
	} {
		for _, slots := range [][]int{nil, {engine.Slot(name, engine.DefaultSlots)}} {
			for _, late := range []time.Duration{0, time.Minute} {
				lookFrom(t, e, 0)
				file(name)
				batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 10, Lease: time.Minute, Slots: slots, OverdueBy: late})
				require.NoError(t, err)
				require.Len(t, batch.Leased, 1, "%s, slots %v, late %v", name, slots, late)
				leaseBatch(t, e, 0, time.Minute, engine.Outcome{Token: batch.Leased[0].Token, As: engine.Done})
			}
		}
	}
}

func TestALeaseThatEndsOnAnotherNodeIsSeen(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	other := open(t, schemaOf(e))
	set(t, other, engine.Task{ID: "1"})
	lookFrom(t, e, 0)
	leaseOne(t, other, time.Millisecond)
	require.Equal(t, "1", leaseOne(t, e, time.Minute).ID)
}

func TestATaskCommittedLongAfterItWasFiledIsFoundByALook(t *testing.T) {
	t.Parallel()
	e := openTopic(t, engine.Topic{Name: "orders"})
	other := open(t, schemaOf(e))
	tx, err := newPool(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = other.SetTx(t.Context(), tx, []engine.Task{{Topic: "orders", ID: "late"}})
	require.NoError(t, err)
	lookFrom(t, e, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.Empty(t, leaseBatch(t, e, 10, time.Minute).Leased, "it is behind the front")
	require.Eventually(t, func() bool {
		require.NoError(t, e.LookNow(t.Context(), "orders"))
		return len(leaseBatch(t, e, 10, time.Minute).Leased) == 1
	}, time.Minute, 10*time.Millisecond)
}

func TestATaskSetAfterTheClockWasSteppedBackIsFound(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	lookFrom(t, e, time.Hour) // an hour ago, as it were, the clock was stepped back by more than that
	set(t, e, engine.Task{ID: "1"})
	require.Len(t, leaseBatch(t, e, 10, time.Minute).Leased, 1)
}

// A role may have rights for one of the sequences from before there was another.
func TestTheSequenceOfAnEarlierVersionGivesItsRightsToTheNewOne(t *testing.T) {
	e := openTopic(t, engine.Topic{Name: "orders"})
	pool := newPool(t)
	role := "role_" + schemaOf(e)
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`CREATE ROLE %[2]s LOGIN; GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT ALL ON ALL TABLES IN SCHEMA %[1]s TO %[2]s;
		GRANT USAGE ON SEQUENCE %[1]s.hw_number TO %[2]s; DROP SEQUENCE %[1]s.hw_past; DELETE FROM %[1]s.hw_migrations WHERE version > 6`, schemaOf(e), role))
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %[1]s; DROP ROLE %[1]s", role))
		require.NoError(t, err)
	})
	open(t, schemaOf(e))
	cfg, err := pgxpool.ParseConfig(sharedURL(t))
	require.NoError(t, err)
	cfg.ConnConfig.User = role
	limited, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(limited.Close)
	as, err := postgres.New(t.Context(), limited, postgres.Config{Schema: schemaOf(e)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, as.Close()) })
	set(t, as, engine.Task{ID: "1", Due: time.Unix(1, 0)})
	require.Equal(t, "1", leaseOne(t, as, time.Minute).ID)
}

func TestTheOldestTransactionIsToldByItsAge(t *testing.T) {
	e, err := postgres.Open(t.Context(), sharedURL(t), postgres.Config{Schema: newSchema()})
	require.NoError(t, err)
	pool := newPool(t)
	age := func() time.Duration {
		age, err := e.OldestTransaction(t.Context())
		require.NoError(t, err)
		return age
	}
	tx := hold(t, pool)
	held := time.Now()
	time.Sleep(50 * time.Millisecond)
	least := time.Since(held)
	require.GreaterOrEqual(t, age(), least)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Eventually(t, func() bool { // other tests have transactions, too
		asked := time.Now()
		return age() < asked.Sub(held)
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, e.Close())
	_, err = e.OldestTransaction(t.Context())
	require.ErrorIs(t, err, engine.ErrClosed)
}
