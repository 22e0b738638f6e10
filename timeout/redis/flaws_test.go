package redis_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Each test here is about a way in which a timeout centre on Redis loses tasks or does them
// twice. First it shows that on the flawed form, in a few lines, then that the engine is
// right.

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

// slice is the key of the minute that a wheel of minutes keeps a task in, by a clock.
func slice(at time.Time) string { return "task_" + at.Format("2006-01-02-15:04") }

// popSecond is the pop of a wheel that looks at the present second only, and takes what it
// finds.
const popSecond = `
local found = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'BYSCORE')
redis.call('ZREMRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[2])
return found`

func TestFlaw1AGapInTickingLeavesNothingBehind(t *testing.T) {
	client, name := flawed(t)
	now := time.Now()
	due := now.Add(-4 * time.Second) // the ticks of that time were missed
	client.ZAdd(ctx, name(slice(due)), goredis.Z{Score: float64(due.Unix()), Member: "1"})
	for range 3 {
		found := eval(t, client, popSecond, []string{name(slice(now))}, now.Unix(), now.Unix()+1)
		require.Empty(t, found, "the flawed form never sees it")
	}
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1", Due: due})
	require.Equal(t, "1", lease(t, engine, time.Minute).ID)
}

func TestFlaw2ADelayShorterThanATickIsKept(t *testing.T) {
	client, name := flawed(t)
	second := time.Now().Unix()
	key := name(slice(time.Unix(second, 0)))
	eval(t, client, popSecond, []string{key}, second, second+1)
	client.ZAdd(ctx, key, goredis.Z{Score: float64(second), Member: "1"}) // for the second that was looked at
	require.Empty(t, eval(t, client, popSecond, []string{key}, second+1, second+2))
	engine := orders(t, timeout.Topic{})
	expire(t, engine, timeout.Ask{Max: 1})
	set(t, engine, timeout.Task{ID: "1"})
	require.Equal(t, "1", lease(t, engine, time.Minute).ID)
}

func TestFlaw3AWorkerThatDiesAfterTakingATaskDoesNotLoseIt(t *testing.T) {
	client, name := flawed(t)
	client.ZAdd(ctx, name("z"), goredis.Z{Score: 1, Member: "1"})
	require.Equal(t, []any{"1"}, eval(t, client, popSecond, []string{name("z")}, 1, 2))
	require.Zero(t, client.Exists(ctx, name("z")).Val(), "nobody has it any more")
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1"})
	lease(t, engine, 30*time.Millisecond)
	require.Eventually(t, func() bool { return len(expire(t, engine, timeout.Ask{Max: 1}).Leased) == 1 }, 5*time.Second, 5*time.Millisecond)
}

func TestFlaw4ARemovedTaskStaysRemoved(t *testing.T) {
	client, name := flawed(t)
	client.ZAdd(ctx, name("z"), goredis.Z{Score: 1, Member: "1"})
	client.SAdd(ctx, name("delset"), "1")
	client.PExpire(ctx, name("delset"), 10*time.Millisecond) // 120 s there, for a task due later than that
	time.Sleep(20 * time.Millisecond)
	require.False(t, client.SIsMember(ctx, name("delset"), "1").Val(), "that it was removed is forgotten")
	require.Equal(t, []any{"1"}, eval(t, client, popSecond, []string{name("z")}, 1, 2))
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1", After: 30 * time.Millisecond})
	removed, err := engine.Remove(ctx, []timeout.Removal{{Key: key("1")}})
	require.NoError(t, err)
	require.Equal(t, timeout.Pending, removed[0].Was)
	time.Sleep(50 * time.Millisecond)
	require.Empty(t, expire(t, engine, timeout.Ask{Max: 1}).Leased)
	for _, name := range sharedServer(t).client(t).Keys(ctx, engine.Prefix()+":{orders:*").Val() {
		require.Equal(t, ":m", name[len(name)-2:], "nothing is left of it")
	}
}

func TestFlaw5ATaskThatIsChangedFiresOnce(t *testing.T) {
	client, name := flawed(t)
	client.ZAdd(ctx, name("z"), goredis.Z{Score: 1, Member: `{"key":"1","url":"a"}`})
	client.ZAdd(ctx, name("z"), goredis.Z{Score: 1, Member: `{"key":"1","url":"b"}`})
	require.Len(t, eval(t, client, popSecond, []string{name("z")}, 1, 2), 2)
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1", Payload: []byte("a")})
	set(t, engine, timeout.Task{ID: "1", Payload: []byte("b")})
	batch := expire(t, engine, timeout.Ask{Max: 10})
	require.Len(t, batch.Leased, 1)
	require.Equal(t, "b", string(batch.Leased[0].Payload))
}

func TestFlaw6ATaskIsRemovedByItsIDWhateverItsTime(t *testing.T) {
	client, name := flawed(t)
	due := time.Now()
	client.ZAdd(ctx, name(slice(due)), goredis.Z{Score: float64(due.Unix()), Member: "1"})
	wrong := due.Add(time.Minute) // as the caller remembers it
	client.ZRem(ctx, name(slice(wrong)), "1")
	require.EqualValues(t, 1, client.ZCard(ctx, name(slice(due))).Val())
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1", Due: due})
	_, err := engine.Move(ctx, []timeout.Move{{Key: key("1"), Due: wrong}})
	require.NoError(t, err)
	_, err = engine.Remove(ctx, []timeout.Removal{{Key: key("1")}})
	require.NoError(t, err)
	require.Equal(t, timeout.None, get(t, engine, "1").State)
}

func TestFlaw7WhatIsDueAtOnceIsTakenInPortions(t *testing.T) {
	client, name := flawed(t)
	var tasks []timeout.Task
	var members []goredis.Z
	for i := range 2000 {
		tasks = append(tasks, timeout.Task{Topic: "orders", ID: strconv.Itoa(i)})
		members = append(members, goredis.Z{Score: 1, Member: strconv.Itoa(i)})
	}
	client.ZAdd(ctx, name("z"), members...)
	require.Len(t, eval(t, client, popSecond, []string{name("z")}, 1, 2), 2000, "all in one script")
	engine := orders(t, timeout.Topic{Slots: 1})
	_, err := engine.Set(ctx, tasks)
	require.NoError(t, err)
	before := calls(t, client, "zremrangebyrank")
	require.Len(t, expire(t, engine, timeout.Ask{Max: 2000}).Leased, 2000)
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
	client, name := flawed(t)
	due := time.Date(2026, 11, 20, 17, 26, 0, 0, time.UTC)
	shanghai := due.In(time.FixedZone("CST", 8*3600))
	client.ZAdd(ctx, name(slice(shanghai)), goredis.Z{Score: float64(due.Unix()), Member: "1"})
	require.Empty(t, eval(t, client, popSecond, []string{name(slice(due))}, due.Unix(), due.Unix()+1))
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1", Due: time.Now().In(shanghai.Location()).Add(-time.Second)})
	require.Equal(t, "1", lease(t, engine, time.Minute).ID)
}

func TestFlaw9NothingFiresEarly(t *testing.T) {
	client, name := flawed(t)
	now := time.Now().Truncate(time.Second)
	due := now.Add(1900 * time.Millisecond)
	client.ZAdd(ctx, name("z"), goredis.Z{Score: float64(due.Unix()), Member: "1"})
	require.Len(t, eval(t, client, popSecond, []string{name("z")}, now.Unix(), now.Unix()+1), 1, "1.9 s early")
	engine := orders(t, timeout.Topic{})
	for i := range 20 {
		set(t, engine, timeout.Task{ID: strconv.Itoa(i), After: time.Duration(i)*7*time.Millisecond + 1})
	}
	for left := 20; left > 0; {
		batch := expire(t, engine, timeout.Ask{Max: 20})
		for _, leased := range batch.Leased {
			require.False(t, leased.Due.After(batch.Now))
			left--
		}
	}
}

func TestFlaw11ATaskThatFailedDoesNotStarveTheOthers(t *testing.T) {
	client, name := flawed(t)
	now := time.Now().UnixMilli()
	client.ZAdd(ctx, name("z"), goredis.Z{Score: float64(now - 1000), Member: "waits"}, goredis.Z{Score: 15, Member: "failed"}) // retries left
	require.Equal(t, []string{"failed"}, client.ZRangeArgs(ctx, goredis.ZRangeArgs{Key: name("z"), Start: "-inf", Stop: now, ByScore: true, Count: 1}).Val())
	engine := orders(t, timeout.Topic{Slots: 1})
	set(t, engine, timeout.Task{ID: "failed", Due: time.Now().Add(-time.Hour)})
	failed := lease(t, engine, time.Minute)
	set(t, engine, timeout.Task{ID: "waits", Due: time.Now().Add(-time.Second)})
	batch := expire(t, engine, timeout.Ask{Max: 1, Settle: []timeout.Outcome{{Token: failed.Token, As: timeout.Pending, After: time.Hour, Error: "no"}}})
	require.Equal(t, "waits", batch.Leased[0].ID)
}

// lateRollback puts back what a worker has failed at, whoever has it by now.
const lateRollback = `redis.call('ZREM', KEYS[2], ARGV[1]) redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])`

// lender lends a task to workers, who bring it back: done, or put back.
type lender interface {
	take(t *testing.T, lease time.Duration) (receipt any, found bool)
	done(t *testing.T, receipt any)
	putBack(t *testing.T, receipt any)
}

// byMember is two sorted sets, where a worker says of which task it speaks and no more.
type byMember struct {
	client *goredis.Client
	keys   []string // what waits, and what was taken
}

func newByMember(t *testing.T) lender {
	client, name := flawed(t)
	client.ZAdd(ctx, name("store"), goredis.Z{Score: 1, Member: "1"})
	return byMember{client, []string{name("store"), name("prepare")}}
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
	now := time.Now()
	member := eval(t, l.client, takeByMember, l.keys, now.UnixMilli(), now.Add(lease).UnixMilli())
	return member, member != nil
}

func (l byMember) done(_ *testing.T, member any) { l.client.ZRem(ctx, l.keys[1], member) }

func (l byMember) putBack(t *testing.T, member any) {
	eval(t, l.client, lateRollback, l.keys, member, 15)
}

// byToken is the engine.
type byToken struct{ timeout.Engine }

func newByToken(t *testing.T) lender {
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1"})
	return byToken{engine}
}

func (l byToken) take(t *testing.T, lease time.Duration) (any, bool) {
	batch := expire(t, l, timeout.Ask{Max: 1, Lease: lease})
	if len(batch.Leased) == 0 {
		return nil, false
	}
	return batch.Leased[0].Token, true
}

func (l byToken) done(t *testing.T, token any) {
	settle(t, l, timeout.Outcome{Token: token.(timeout.Token), As: timeout.Done})
}

func (l byToken) putBack(t *testing.T, token any) {
	settle(t, l, timeout.Outcome{Token: token.(timeout.Token), As: timeout.Pending})
}

// outlived takes a task for a worker that is too slow, and for the next one then.
func outlived(t *testing.T, l lender, lease time.Duration) (slow, next any) {
	slow, found := l.take(t, 10*time.Millisecond)
	require.True(t, found)
	time.Sleep(20 * time.Millisecond)
	next, found = l.take(t, lease)
	require.True(t, found)
	return slow, next
}

// checkLatePutBack has a slow worker put back what the next one has done.
func checkLatePutBack(t *testing.T, l lender) error {
	slow, next := outlived(t, l, time.Minute)
	l.done(t, next)
	l.putBack(t, slow)
	if _, again := l.take(t, time.Minute); again {
		return errors.New("done again")
	}
	return nil
}

// checkPutBackMeanwhile has a slow worker put back what the next one is doing.
func checkPutBackMeanwhile(t *testing.T, l lender) error {
	slow, _ := outlived(t, l, time.Minute)
	l.putBack(t, slow)
	if _, again := l.take(t, time.Minute); again {
		return errors.New("done by two")
	}
	return nil
}

// checkLateDone has a slow worker be ready while the next one does it, who dies.
func checkLateDone(t *testing.T, l lender) error {
	slow, _ := outlived(t, l, 10*time.Millisecond)
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
	client, name := flawed(t)
	client.ZAdd(ctx, name("store"), goredis.Z{Score: 9e12, Member: "1"}) // set anew meanwhile
	eval(t, client, lateRollback, []string{name("store"), name("prepare")}, "1", 15)
	require.EqualValues(t, 15, client.ZScore(ctx, name("store"), "1").Val())
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1"})
	leased := lease(t, engine, time.Minute)
	newer := set(t, engine, timeout.Task{ID: "1", Due: time.Now().Add(time.Hour)})
	require.Equal(t, timeout.Running, newer.Was)
	require.False(t, settle(t, engine, timeout.Outcome{Token: leased.Token, As: timeout.Pending}))
	task := get(t, engine, "1")
	require.True(t, task.Until.Equal(newer.Due))
	require.Zero(t, task.Attempts)
}

func TestFlaw15TasksWithTheSameContentAreTwo(t *testing.T) {
	client, name := flawed(t)
	client.ZAdd(ctx, name("z"), goredis.Z{Score: 1, Member: "close it"}, goredis.Z{Score: 2, Member: "close it"})
	require.EqualValues(t, 1, client.ZCard(ctx, name("z")).Val())
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1", Payload: []byte("close it")})
	set(t, engine, timeout.Task{ID: "2", Payload: []byte("close it")})
	require.Len(t, expire(t, engine, timeout.Ask{Max: 10}).Leased, 2)
}

func TestFlaw16LeasesThatHaveEndedAreTakenInPortions(t *testing.T) {
	client, name := flawed(t)
	var tasks []timeout.Task
	for i := range 600 {
		tasks = append(tasks, timeout.Task{Topic: "orders", ID: strconv.Itoa(i)})
		client.ZAdd(ctx, name("prepare"), goredis.Z{Score: 1, Member: i})
	}
	require.Len(t, client.ZRangeArgs(ctx, goredis.ZRangeArgs{Key: name("prepare"), Start: "-inf", Stop: 1, ByScore: true}).Val(), 600, "all, for each worker that looks")
	engine := orders(t, timeout.Topic{Slots: 1})
	_, err := engine.Set(ctx, tasks)
	require.NoError(t, err)
	require.Len(t, expire(t, engine, timeout.Ask{Max: 600, Lease: 300 * time.Millisecond}).Leased, 600)
	time.Sleep(310 * time.Millisecond)
	batch := expire(t, engine, timeout.Ask{Max: 10})
	require.Len(t, batch.Leased, 10)
	require.True(t, batch.Leased[0].Again)
	require.False(t, batch.Next.After(batch.Now))
	require.Len(t, expire(t, engine, timeout.Ask{Max: 1000}).Leased, 590)
}

func TestFlaw34And36WhatIsTakenHasALeaseInTheSameStep(t *testing.T) {
	client, name := flawed(t)
	client.LPush(ctx, name("ready"), "1")
	require.Equal(t, "1", client.RPop(ctx, name("ready")).Val())
	// Here a process may end, before it has written the lease.
	require.Empty(t, client.Keys(ctx, name("*")).Val(), "nothing knows of it")
	engine := orders(t, timeout.Topic{})
	set(t, engine, timeout.Task{ID: "1"})
	lease(t, engine, time.Minute)
	task := get(t, engine, "1")
	require.Equal(t, timeout.Running, task.State)
	require.True(t, task.Until.After(time.Now()), "what is taken has an end")
}
