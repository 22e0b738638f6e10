package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Each test here is about a way to lose tasks in Redis, or to do them twice. One check is for the
// flawed form, in a few lines, and for the engine. The flawed form must fail it, and the engine
// must pass.

// flawed is a client, and keys for the flawed form.
func flawed(t *testing.T) (*goredis.Client, func(string) string) {
	client, own := sharedServer(t).client(t), prefix()
	return client, func(name string) string { return own + ":{flawed}:" + name }
}

func eval(t *testing.T, client *goredis.Client, source string, keys []string, args ...any) any {
	t.Helper()
	answer, err := client.Eval(ctx, source, keys, args...).Result()
	if !errors.Is(err, goredis.Nil) {
		require.NoError(t, err)
	}
	return answer
}

// hand is a wheel with its hand at the time of a worker's clock.
type hand interface {
	add(t *testing.T, id, body string, due time.Time)
	remove(t *testing.T, id string, due time.Time)
	take(t *testing.T, at time.Time) (bodies []string)
}

// minutes is a wheel of sorted sets, one for each minute, with bodies by the second. What is
// removed is in a set, and forgotten after a while.
type minutes struct {
	client *goredis.Client
	name   func(string) string
	slice  func(time.Time) string // the set of a time
}

const forgotten = 10 * time.Millisecond // 120 s there, for tasks due later

func newMinutes(t *testing.T) hand {
	client, name := flawed(t)
	return minutes{client, name, slice}
}

// slice is the key of a task's minute in a wheel of minutes, by a clock.
func slice(at time.Time) string { return "task_" + at.Format("2006-01-02-15:04") }

func (w minutes) add(t *testing.T, _, body string, due time.Time) {
	require.NoError(t, w.client.ZAdd(ctx, w.name(w.slice(due)), goredis.Z{Score: float64(due.Unix()), Member: body}).Err())
}

func (w minutes) remove(t *testing.T, id string, due time.Time) {
	require.NoError(t, w.client.SAdd(ctx, w.name("del"+w.slice(due)), id).Err())
	require.NoError(t, w.client.PExpire(ctx, w.name("del"+w.slice(due)), forgotten).Err())
}

// popSecond is the pop of a wheel that looks at the present second only, and takes what it
// finds.
const popSecond = `
local found = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'BYSCORE')
redis.call('ZREMRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[2])
return found`

func (w minutes) take(t *testing.T, at time.Time) (bodies []string) {
	for _, body := range eval(t, w.client, popSecond, []string{w.name(w.slice(at))}, at.Unix(), at.Unix()+1).([]any) {
		if !w.client.SIsMember(ctx, w.name("del"+w.slice(at)), body).Val() { // a body is its id here
			bodies = append(bodies, body.(string))
		}
	}
	return bodies
}

// ours is the engine, with short leases.
type ours struct{ engine.Engine }

const endsSoon = 30 * time.Millisecond

func newOurs(t *testing.T) hand { return ours{orders(t, engine.Topic{})} }

func (w ours) add(t *testing.T, id, body string, due time.Time) {
	set(t, w, engine.Task{ID: id, Payload: []byte(body), Due: due})
}

func (w ours) remove(t *testing.T, id string, _ time.Time) {
	_, err := w.Remove(ctx, []engine.Removal{{Key: key(id)}})
	require.NoError(t, err)
}

func (w ours) take(t *testing.T, _ time.Time) (bodies []string) {
	for _, leased := range leaseBatch(t, w, engine.Ask{Max: 100, Lease: endsSoon}).Leased {
		bodies = append(bodies, string(leased.Payload))
	}
	return bodies
}

// fails has the flawed form fail a check as said, and ours pass it.
func fails(t *testing.T, check func(*testing.T, hand) error, how string) {
	t.Helper()
	require.EqualError(t, check(t, newMinutes(t)), how)
	require.NoError(t, check(t, newOurs(t)))
}

// takes returns an error if these are not taken, in any order.
func takes(t *testing.T, w hand, at time.Time, want ...string) error {
	got := w.take(t, at)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("%q are taken, must be %q", got, want)
	}
	return nil
}

// present is a time due at once. Fractions of a millisecond would be rounded up.
func present() time.Time { return time.Now().Truncate(time.Millisecond) }

func TestFlaw1AGapInTickingLeavesNothingBehind(t *testing.T) {
	fails(t, func(t *testing.T, w hand) error {
		now := present()
		w.add(t, "1", "1", now.Add(-4*time.Second)) // nobody looked at the ticks of then
		return takes(t, w, now, "1")
	}, `[] are taken, must be ["1"]`)
}

func TestFlaw2ADelayShorterThanATickIsKept(t *testing.T) {
	fails(t, func(t *testing.T, w hand) error {
		second := time.Unix(time.Now().Unix(), 0)
		w.take(t, second)
		w.add(t, "1", "1", second) // for the second of the last look
		return takes(t, w, second.Add(2*time.Second), "1")
	}, `[] are taken, must be ["1"]`)
}

func TestFlaw3AWorkerThatDiesAfterTakingATaskDoesNotLoseIt(t *testing.T) {
	fails(t, func(t *testing.T, w hand) error {
		now := present()
		w.add(t, "1", "1", now)
		if err := takes(t, w, now, "1"); err != nil {
			return err
		}
		time.Sleep(2 * endsSoon) // the worker has died
		return takes(t, w, now, "1")
	}, `[] are taken, must be ["1"]`)
}

func TestFlaw4ARemovedTaskStaysRemoved(t *testing.T) {
	fails(t, func(t *testing.T, w hand) error {
		due := time.Now().Add(endsSoon)
		w.add(t, "1", "1", due)
		w.remove(t, "1", due)
		time.Sleep(2*endsSoon + forgotten)
		return takes(t, w, due)
	}, `["1"] are taken, must be []`)

	e := orders(t, engine.Topic{})
	w := ours{e}
	w.add(t, "1", "1", time.Now().Add(time.Hour))
	w.remove(t, "1", time.Time{})
	for _, name := range sharedServer(t).client(t).Keys(ctx, e.Prefix()+":{orders:*").Val() {
		require.Equal(t, ":m", name[len(name)-2:], "nothing is left of it")
	}
}

func TestFlaw5ATaskThatIsChangedFiresOnce(t *testing.T) {
	fails(t, func(t *testing.T, w hand) error {
		now := present()
		w.add(t, "1", "a", now)
		w.add(t, "1", "b", now)
		return takes(t, w, now, "b")
	}, `["a" "b"] are taken, must be ["b"]`)
}

func TestFlaw6ATaskIsRemovedByItsIDWhateverItsTime(t *testing.T) {
	fails(t, func(t *testing.T, w hand) error {
		due := present()
		w.add(t, "1", "1", due)
		w.remove(t, "1", due.Add(time.Minute)) // as the caller remembers it
		return takes(t, w, due)
	}, `["1"] are taken, must be []`)
}

func TestFlaw7WhatIsDueAtOnceIsTakenInPortions(t *testing.T) {
	client, name := flawed(t)
	var tasks []engine.Task
	var members []goredis.Z
	for i := range 2000 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: strconv.Itoa(i)})
		members = append(members, goredis.Z{Score: 1, Member: strconv.Itoa(i)})
	}
	client.ZAdd(ctx, name("z"), members...)
	require.Len(t, eval(t, client, popSecond, []string{name("z")}, 1, 2), 2000, "all in one script")
	e := orders(t, engine.Topic{Slots: 1})
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	before := calls(t, client, "zremrangebyrank")
	require.Len(t, leaseBatch(t, e, engine.Ask{Max: 2000}).Leased, 2000)
	require.GreaterOrEqual(t, calls(t, client, "zremrangebyrank")-before, 2000/256+1)
}

// calls returns how many times a server has run a command.
func calls(t *testing.T, client *goredis.Client, command string) int {
	t.Helper()
	stats, err := client.InfoMap(ctx, "commandstats").Result()
	require.NoError(t, err)
	var count int
	_, err = fmt.Sscanf(stats["Commandstats"]["cmdstat_"+command], "calls=%d,", &count)
	if stats["Commandstats"]["cmdstat_"+command] != "" {
		require.NoError(t, err)
	}
	return count
}

func TestFlaw8NoTimeZoneDecidesWhereATaskIs(t *testing.T) {
	shanghai := time.FixedZone("CST", 8*3600)
	fails(t, func(t *testing.T, w hand) error {
		now := present().UTC()
		w.add(t, "1", "1", now.In(shanghai)) // by another node
		return takes(t, w, now, "1")
	}, `[] are taken, must be ["1"]`)
}

func TestFlaw9NothingFiresEarly(t *testing.T) {
	check := func(t *testing.T, w hand) error {
		now := time.Now().Truncate(time.Second)
		w.add(t, "1", "1", now.Add(time.Minute+1900*time.Millisecond))
		return takes(t, w, now.Add(time.Minute)) // 1.9 s before
	}
	early := newMinutes(t).(minutes)
	early.slice = func(time.Time) string { return "" } // it is not about borders of minutes
	require.EqualError(t, check(t, early), `["1"] are taken, must be []`)
	require.NoError(t, check(t, newOurs(t)))

	e := orders(t, engine.Topic{})
	for i := range 20 {
		set(t, e, engine.Task{ID: strconv.Itoa(i), After: time.Duration(i)*7*time.Millisecond + 1})
	}
	for left := 20; left > 0; {
		batch := leaseBatch(t, e, engine.Ask{Max: 20})
		for _, leased := range batch.Leased {
			require.False(t, leased.Due.After(batch.Now))
			left--
		}
	}
}

// lender lends tasks to workers, who bring them back: done, or put back to be tried again
// after a while.
type lender interface {
	set(t *testing.T, id string, due time.Time)
	due(t *testing.T, id string) int64
	take(t *testing.T, lease time.Duration) (receipt any, found bool)
	id(receipt any) string
	done(t *testing.T, receipt any)
	putBack(t *testing.T, receipt any, after time.Duration)
}

// byMember is two sorted sets. A worker names its task and no lease. After a task was put back its
// score is the number of its retries left.
type byMember struct {
	client *goredis.Client
	keys   []string // what waits, and what was taken
}

func newByMember(t *testing.T) lender {
	client, name := flawed(t)
	return byMember{client, []string{name("store"), name("prepare")}}
}

func (l byMember) set(t *testing.T, id string, due time.Time) {
	require.NoError(t, l.client.ZAdd(ctx, l.keys[0], goredis.Z{Score: float64(due.UnixMilli()), Member: id}).Err())
}

func (l byMember) due(_ *testing.T, id string) int64 {
	return int64(l.client.ZScore(ctx, l.keys[0], id).Val())
}

const takeByMember = `
local function move(from, to, limit, score)
	local found = redis.call('ZRANGE', from, '-inf', limit, 'BYSCORE', 'LIMIT', 0, 1)[1]
	if found then
		redis.call('ZREM', from, found)
		redis.call('ZADD', to, score, found)
	end
	return found
end
move(KEYS[2], KEYS[1], ARGV[1], ARGV[1]) -- whose lease has ended
return move(KEYS[1], KEYS[2], ARGV[1], ARGV[2])`

func (l byMember) take(t *testing.T, lease time.Duration) (any, bool) {
	now := present()
	member := eval(t, l.client, takeByMember, l.keys, now.UnixMilli(), now.Add(lease).UnixMilli())
	return member, member != nil
}

func (l byMember) id(member any) string { return member.(string) }

func (l byMember) done(_ *testing.T, member any) { l.client.ZRem(ctx, l.keys[1], member) }

const putBackByMember = `redis.call('ZREM', KEYS[2], ARGV[1]) redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])`

func (l byMember) putBack(t *testing.T, member any, _ time.Duration) {
	eval(t, l.client, putBackByMember, l.keys, member, 15)
}

// byToken is the engine.
type byToken struct{ engine.Engine }

func newByToken(t *testing.T) lender { return byToken{orders(t, engine.Topic{Slots: 1})} }

func (l byToken) set(t *testing.T, id string, due time.Time) {
	set(t, l, engine.Task{ID: id, Due: due})
}

func (l byToken) due(t *testing.T, id string) int64 { return get(t, l, id).Until.UnixMilli() }

func (l byToken) take(t *testing.T, lease time.Duration) (any, bool) {
	batch := leaseBatch(t, l, engine.Ask{Max: 1, Lease: lease})
	if len(batch.Leased) == 0 {
		return nil, false
	}
	return batch.Leased[0].Token, true
}

func (l byToken) id(token any) string { return token.(engine.Token).ID }

func (l byToken) done(t *testing.T, token any) {
	settle(t, l, engine.Outcome{Token: token.(engine.Token), As: engine.Done})
}

func (l byToken) putBack(t *testing.T, token any, after time.Duration) {
	settle(t, l, engine.Outcome{Token: token.(engine.Token), As: engine.Pending, After: after, Error: "no"})
}

func TestFlaw11ATaskThatFailedDoesNotStarveTheOthers(t *testing.T) {
	check := func(t *testing.T, l lender) error {
		l.set(t, "fails", time.Now().Add(-time.Hour))
		l.set(t, "waits", time.Now().Add(-time.Second))
		for range 2 {
			receipt, found := l.take(t, time.Minute)
			require.True(t, found)
			if l.id(receipt) == "waits" {
				return nil
			}
			l.putBack(t, receipt, time.Hour)
		}
		return errors.New("what fails is taken again, and what is due waits")
	}
	require.EqualError(t, check(t, newByMember(t)), "what fails is taken again, and what is due waits")
	require.NoError(t, check(t, newByToken(t)))
}

// expired takes a task for a worker, too slow, and for the next one then.
func expired(t *testing.T, l lender, lease time.Duration) (slow, next any) {
	l.set(t, "1", present())
	slow, found := l.take(t, 10*time.Millisecond)
	require.True(t, found)
	time.Sleep(20 * time.Millisecond)
	next, found = l.take(t, lease)
	require.True(t, found)
	return slow, next
}

// checkLatePutBack has a slow worker put back what the next one has done.
func checkLatePutBack(t *testing.T, l lender) error {
	slow, next := expired(t, l, time.Minute)
	l.done(t, next)
	l.putBack(t, slow, 0)
	if _, again := l.take(t, time.Minute); again {
		return errors.New("done again")
	}
	return nil
}

// checkPutBackMeanwhile has a slow worker put back what the next one is doing.
func checkPutBackMeanwhile(t *testing.T, l lender) error {
	slow, _ := expired(t, l, time.Minute)
	l.putBack(t, slow, 0)
	if _, again := l.take(t, time.Minute); again {
		return errors.New("done by two")
	}
	return nil
}

// checkLateDone has a slow worker be ready while the next one does the task and dies.
func checkLateDone(t *testing.T, l lender) error {
	slow, _ := expired(t, l, 10*time.Millisecond)
	l.done(t, slow)
	time.Sleep(20 * time.Millisecond)
	if _, again := l.take(t, time.Minute); !again {
		return errors.New("lost")
	}
	return nil
}

func TestFlaw12AWorkerWhoseLeaseHasEndedChangesNothing(t *testing.T) {
	for failure, check := range map[string]func(*testing.T, lender) error{
		"done again": checkLatePutBack, "done by two": checkPutBackMeanwhile, "lost": checkLateDone,
	} {
		require.EqualError(t, check(t, newByMember(t)), failure)
		require.NoError(t, check(t, newByToken(t)), failure)
	}
}

func TestFlaw13AFailureDoesNotOverwriteANewerTime(t *testing.T) {
	newer := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	check := func(t *testing.T, l lender) error {
		l.set(t, "1", present())
		receipt, found := l.take(t, time.Minute)
		require.True(t, found)
		l.set(t, "1", newer)
		l.putBack(t, receipt, 0)
		if due := l.due(t, "1"); due != newer.UnixMilli() {
			return fmt.Errorf("due at %d, must be when it was set for", due)
		}
		return nil
	}
	require.EqualError(t, check(t, newByMember(t)), "due at 15, must be when it was set for")
	ours := newByToken(t)
	require.NoError(t, check(t, ours))
	require.Zero(t, get(t, ours.(byToken), "1").Attempts)
}

func TestFlaw15TasksWithTheSameContentAreTwo(t *testing.T) {
	fails(t, func(t *testing.T, w hand) error {
		now := present()
		w.add(t, "1", "close it", now)
		w.add(t, "2", "close it", now)
		return takes(t, w, now, "close it", "close it")
	}, `["close it"] are taken, must be ["close it" "close it"]`)
}

func TestFlaw16LeasesThatHaveEndedAreTakenInPortions(t *testing.T) {
	client, name := flawed(t)
	var tasks []engine.Task
	for i := range 600 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: strconv.Itoa(i)})
		client.ZAdd(ctx, name("prepare"), goredis.Z{Score: 1, Member: i})
	}
	require.Len(t, client.ZRangeArgs(ctx, goredis.ZRangeArgs{Key: name("prepare"), Start: "-inf", Stop: 1, ByScore: true}).Val(), 600, "all, for each worker that looks")
	e := orders(t, engine.Topic{Slots: 1})
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	require.Len(t, leaseBatch(t, e, engine.Ask{Max: 600, Lease: 300 * time.Millisecond}).Leased, 600)
	time.Sleep(310 * time.Millisecond)
	batch := leaseBatch(t, e, engine.Ask{Max: 10})
	require.Len(t, batch.Leased, 10)
	require.True(t, batch.Leased[0].Again)
	require.False(t, batch.Next.After(batch.Now))
	require.Len(t, leaseBatch(t, e, engine.Ask{Max: 1000}).Leased, 590)
}

func TestFlaw34And36WhatIsTakenHasALeaseInTheSameStep(t *testing.T) {
	client, name := flawed(t)
	client.LPush(ctx, name("ready"), "1")
	require.Equal(t, "1", client.RPop(ctx, name("ready")).Val())
	// Here a process may end, before it has written the lease.
	require.Empty(t, client.Keys(ctx, name("*")).Val(), "nothing knows of it")
	e := orders(t, engine.Topic{})
	set(t, e, engine.Task{ID: "1"})
	lease(t, e, time.Minute)
	task := get(t, e, "1")
	require.Equal(t, engine.Running, task.State)
	require.True(t, task.Until.After(time.Now()), "what is taken has an end")
}
