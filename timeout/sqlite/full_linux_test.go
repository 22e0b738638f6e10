package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

// disk is a file system of its own.
type disk struct {
	*testing.T
	dir string
}

func newDisk(t *testing.T, mib int) *disk {
	d := &disk{t, t.TempDir()}
	err := syscall.Mount("tmpfs", d.dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib))
	if errors.Is(err, syscall.EPERM) {
		t.Skip("mounting a file system needs root, and CAP_SYS_ADMIN in a container")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(d.dir, 0)) })
	return d
}

// fill takes all free room, as another program would.
func (d *disk) fill() {
	d.Helper()
	f, err := os.OpenFile(filepath.Join(d.dir, "other"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(d.T, err)
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		require.ErrorIs(d.T, err, syscall.ENOSPC)
	}
	require.NoError(d.T, f.Close())
}

// more sets the size of the disk.
func (d *disk) more(mib int) {
	d.Helper()
	require.NoError(d.T, syscall.Mount("tmpfs", d.dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%dm", mib)))
}

// empty gives the room taken by fill back.
func (d *disk) empty() { require.NoError(d.T, os.Remove(filepath.Join(d.dir, "other"))) }

func (d *disk) open() *sqlite.Engine {
	d.Helper()
	e, err := sqlite.Open(filepath.Join(d.dir, "tasks.db"), sqlite.Config{})
	require.NoError(d.T, err)
	d.Cleanup(func() { require.NoError(d.T, e.Close()) })
	return e
}

// setUntilFull sets tasks until the engine refuses one, and returns the number of accepted tasks.
func (d *disk) setUntilFull(e *sqlite.Engine, payload int) (n int) {
	d.Helper()
	for err := error(nil); err == nil; n++ {
		require.Less(d.T, n, 100_000)
		_, err = e.Set(context.Background(), []engine.Task{{Topic: "t", ID: fmt.Sprint(n), Payload: make([]byte, payload)}})
		if err != nil {
			require.ErrorIs(d.T, err, engine.ErrFull)
			return n
		}
	}
	return n
}

// finish runs all tasks. Each fails once, and one in ten has no further attempt.
func (d *disk) finish(e *sqlite.Engine) (done int) {
	d.Helper()
	ctx := context.Background()
	ask := engine.Ask{Topic: "t", Node: "node-1", Max: 100, Lease: time.Minute}
	for {
		batch, err := e.Lease(ctx, ask)
		require.NoError(d.T, err)
		require.NotContains(d.T, batch.Settled, false)
		if len(batch.Leased) == 0 {
			return done
		}
		ask.Settle = nil
		for _, leased := range batch.Leased {
			outcome := engine.Outcome{Token: leased.Token, As: engine.Done}
			if leased.Attempts == 1 {
				outcome.As, outcome.Error = engine.Pending, "the target answered 503 Service Unavailable"
			} else {
				done++
			}
			ask.Settle = append(ask.Settle, outcome)
		}
	}
}

// On a full disk Set refuses tasks. All existing tasks can be leased, fail, be moved, removed and
// done.
func TestAFullDiskTakesNoTasksAndFinishesThoseThatThereAre(t *testing.T) {
	d := newDisk(t, 5)
	one, other := d.open(), d.open()
	ctx := t.Context()
	_, err := one.SetTopic(ctx, engine.Topic{Name: "t"}, false)
	require.NoError(t, err)
	n := d.setUntilFull(one, 3000)
	require.Greater(t, n, 100)
	d.fill()
	for _, e := range []*sqlite.Engine{one, other} {
		_, err = e.Set(ctx, []engine.Task{{Topic: "t", ID: "more"}})
		require.ErrorIs(t, err, engine.ErrFull)
		err = e.Ready(ctx)
		require.ErrorIs(t, err, engine.ErrFull)
		require.ErrorContains(t, err, "KiB of room")
	}
	answers, err := other.Move(ctx, []engine.Move{{Key: key("0"), After: time.Hour}})
	require.NoError(t, err)
	require.Equal(t, engine.Pending, answers[0].Was)
	answers, err = one.Remove(ctx, []engine.Removal{{Key: key("0")}})
	require.NoError(t, err)
	require.Equal(t, engine.Pending, answers[0].Was)
	_, err = one.Heartbeat(ctx, engine.Node{Name: "node-1"}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, n-1, d.finish(one))

	_, err = other.Set(ctx, []engine.Task{{Topic: "t", ID: "more"}})
	require.NoError(t, err, "there is room in the file")
	require.NoError(t, one.Ready(ctx))
}

// The program can start on a full disk, and takes tasks again when there is room.
func TestAFullDiskIsOpenedAndGoesOnByItself(t *testing.T) {
	d := newDisk(t, 5)
	ctx := t.Context()
	earlier := d.open()
	_, err := earlier.SetTopic(ctx, engine.Topic{Name: "t"}, false)
	require.NoError(t, err)
	n := d.setUntilFull(earlier, 3000)
	require.NoError(t, earlier.Close())
	d.fill()
	e := d.open()
	require.ErrorIs(t, e.Ready(ctx), engine.ErrFull)
	_, err = e.Set(ctx, []engine.Task{{Topic: "t", ID: "more"}})
	require.ErrorIs(t, err, engine.ErrFull)
	answers, err := e.Remove(ctx, []engine.Removal{{Key: key("0")}})
	require.NoError(t, err)
	require.Equal(t, engine.Pending, answers[0].Was)

	d.empty()
	d.more(12)
	require.Eventually(t, func() bool { return e.Ready(ctx) == nil }, time.Minute, 10*time.Millisecond)
	_, err = e.Set(ctx, []engine.Task{{Topic: "t", ID: "more"}})
	require.NoError(t, err)
	require.Equal(t, n, d.finish(e))
}

// A disk smaller than the reserve serves as long as it has room.
func TestADiskWithoutRoomForTheReserve(t *testing.T) {
	d := newDisk(t, 1)
	e := d.open()
	require.ErrorIs(t, e.Ready(t.Context()), engine.ErrFull)
	_, err := e.SetTopic(t.Context(), engine.Topic{Name: "t"}, false)
	require.NoError(t, err)
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "t", ID: "a"}})
	require.ErrorIs(t, err, engine.ErrFull)
}

// Tasks take room left in the file by others, also if the log has no room to grow.
func TestAFullDiskThatIsOpenedTakesTasksIfTheFileHasRoom(t *testing.T) {
	d := newDisk(t, 5)
	ctx := t.Context()
	earlier := d.open()
	_, err := earlier.SetTopic(ctx, engine.Topic{Name: "t"}, false)
	require.NoError(t, err)
	n := d.setUntilFull(earlier, 3000)
	require.Equal(t, n, d.finish(earlier))
	require.NoError(t, earlier.Close())
	earlier = d.open() // fills the reserve
	require.NoError(t, earlier.Close())
	d.fill()
	e := d.open()
	for i := range n / 10 {
		tasks := make([]engine.Task, 10)
		for j := range tasks {
			tasks[j] = engine.Task{Topic: "t", ID: fmt.Sprint(i, " ", j), Payload: make([]byte, 300)}
		}
		_, err := e.Set(ctx, tasks)
		require.NoError(t, err, "batch %d", i)
		require.NoError(t, e.Ready(ctx))
	}
	require.Equal(t, n/10*10, d.finish(e))
}

// Only a disk without room is full. Any other failure of the reserve names its cause.
func TestAReserveThatCantBeWrittenIsNoFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	require.NoError(t, os.Mkdir(path+"-reserve", 0o700))
	e, err := sqlite.Open(path, sqlite.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	err = e.Ready(t.Context())
	require.ErrorIs(t, err, syscall.EISDIR)
	require.NotErrorIs(t, err, engine.ErrFull)
	require.NoError(t, os.Remove(path+"-reserve"))
	require.Eventually(t, func() bool { return e.Ready(t.Context()) == nil }, time.Minute, 10*time.Millisecond)
}

// A full disk is not ready, even before anybody has tried to set a task.
func TestADiskThatIsFullButForTheReserveIsNotReady(t *testing.T) {
	d := newDisk(t, 5)
	e := d.open()
	ctx := t.Context()
	_, err := e.SetTopic(ctx, engine.Topic{Name: "t"}, false)
	require.NoError(t, err)
	require.NoError(t, e.Ready(ctx))
	d.fill()
	var full error
	for range 1000 { // until the log needs room
		if full = e.Ready(ctx); full != nil {
			break
		}
	}
	for range 10 {
		require.ErrorIs(t, e.Ready(ctx), engine.ErrFull)
		_, err = e.Set(ctx, []engine.Task{{Topic: "t", ID: "more"}})
		require.ErrorIs(t, err, engine.ErrFull)
		time.Sleep(20 * time.Millisecond)
	}
}
