//go:build interop && unix

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

const (
	// killLease is how long the tasks of a killed process wait for another process.
	killLease = 6 * time.Second

	// settleTime is the longest time from the target's answer until the task is settled, on a
	// busy machine. A process killed later than that has repeated nothing.
	settleTime = 6 * time.Second
)

// fleet is a few processes on one store. They are killed and replaced one by one.
type fleet struct {
	witness *witness
	with    process
	random  *rand.Rand
	pace    time.Duration // between two requests of a setter

	mu      sync.Mutex
	live    []*process
	addrs   []string
	nodes   []string
	started int
	killed  map[string]time.Time // by node
}

// newFleet starts the processes, on an address for them alone if there are as many as on Linux: the
// kernel soon gives the port of a killed process to another one, and that would accept our tasks.
func newFleet(t *testing.T, size int, seed uint64, w *witness, with process) *fleet {
	if runtime.GOOS == "linux" {
		with.host = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	}
	f := &fleet{witness: w, with: with, random: rand.New(rand.NewPCG(seed, seed)), pace: 50 * time.Millisecond, killed: make(map[string]time.Time)}
	f.live, f.addrs, f.nodes = make([]*process, size), make([]string, size), make([]string, size)
	for place := range size {
		f.start(t, place)
	}
	return f
}

func (f *fleet) start(t *testing.T, place int) {
	node := fmt.Sprint("node-", f.started)
	with := f.with
	if f.started%4 == 0 { // these have the race detector; such a process takes several times as long to start
		with.program = ""
	}
	p := start(t, f.witness.employ(with, node))
	addr := p.addr(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started++
	f.live[place], f.addrs[place], f.nodes[place] = p, addr, node
}

// kill kills a random process and starts another one in its place.
func (f *fleet) kill(t *testing.T) {
	place := f.random.IntN(len(f.live))
	require.NoError(t, f.live[place].cmd.Process.Kill())
	require.Error(t, f.live[place].wait())
	f.mu.Lock()
	f.killed[f.nodes[place]] = time.Now()
	f.mu.Unlock()
	f.start(t, place)
}

// load sets tasks through all processes until stop is closed.
func (f *fleet) load(s *setter, name string, seed uint64, stop chan struct{}) {
	random := rand.New(rand.NewPCG(seed, 1))
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(f.pace):
		}
		after := make(map[string]time.Duration)
		for i := range 5 {
			after[fmt.Sprintf("%s-%d-%d", name, n, i)] = time.Duration(random.IntN(500)) * time.Millisecond
		}
		f.mu.Lock()
		addr := f.addrs[random.IntN(len(f.addrs))]
		f.mu.Unlock()
		s.set(addr, after)
	}
}

// A hundred kills, while the processes set, lease, call and settle tasks. Each accepted task
// is delivered. It is delivered again only if a killed process had it.
func TestAHundredRandomKillsLoseNothing(t *testing.T) {
	t.Parallel()
	program := build(t)
	for name, c := range map[string]struct {
		kills int
		pause time.Duration // between two kills, at most
	}{
		"redis":                       {50, 150 * time.Millisecond},
		"postgres":                    {40, 150 * time.Millisecond},
		"sqlite":                      {10, 600 * time.Millisecond},
		"memory in front of postgres": {10, 150 * time.Millisecond},
		"memory in front of sqlite":   {10, 600 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			f, seed := newFleetOn(t, name, program)
			t.Parallel()
			if isLong() {
				c.kills *= 10
			}
			killAtRandom(t, c.kills, c.pause, f, seed)
		})
	}
}

// The same for as long as HEARTWHEEL_SOAK says, such as 1h, with a kill a minute. The load is less, since the
// test remembers all of it.
func TestSoak(t *testing.T) {
	asked := os.Getenv("HEARTWHEEL_SOAK")
	if asked == "" {
		t.Skip("make soak runs it")
	}
	long, err := time.ParseDuration(asked)
	require.NoError(t, err)
	program := build(t)
	for _, name := range []string{"redis", "postgres", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			f, seed := newFleetOn(t, name, program)
			t.Parallel()
			f.pace = 100 * time.Millisecond
			killAtRandom(t, max(1, int(long/time.Minute)), 2*time.Minute, f, seed)
		})
	}
}

// build compiles the program as users get it.
func build(t *testing.T) (file string) {
	file = filepath.Join(t.TempDir(), "timeoutd")
	out, err := exec.Command("go", "build", "-o", file, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

// newFleetOn starts the program on an engine of its own: redis, postgres or sqlite, the last two also with
// "memory in front of " before.
func newFleetOn(t *testing.T, engine, program string) (f *fleet, seed uint64) {
	processes, with := 3, process{program: program}
	engine, inFront := strings.CutPrefix(engine, "memory in front of ")
	switch engine {
	case "redis":
		with.env = []string{"REDIS_URL=" + newRedis(t).URL}
	case "postgres":
		with.env = []string{"DATABASE_URL=" + testserver.Database(t)}
	case "sqlite":
		with.args = []string{"-sqlite", filepath.Join(t.TempDir(), "tasks.db")}
		processes = 1
	}
	if inFront {
		with.args = append(with.args, "-index")
	}
	with.args = append(with.args, "-ttl", "3s")
	seed = rand.Uint64()
	t.Logf("seed %d", seed)
	return newFleet(t, processes, seed, newWitness(t, nil), with), seed
}

func killAtRandom(t *testing.T, kills int, pause time.Duration, f *fleet, seed uint64) {
	f.live[0].serveTopic(t, f.witness, `"lease":"`+killLease.String()+`",`)
	s, stop := newSetter(t), make(chan struct{})
	var setting sync.WaitGroup
	for i := range 2 {
		setting.Go(func() { f.load(s, fmt.Sprint("task-", i), seed+uint64(i), stop) })
	}
	for range kills {
		time.Sleep(time.Duration(f.random.Int64N(int64(pause))))
		f.kill(t)
	}
	time.Sleep(time.Second) // nobody is killed now, so nothing may be repeated
	close(stop)
	setting.Wait()
	accepted := s.all()
	f.await(t, accepted)
	f.live[0].rests(t)
	f.judge(t, s, kills)
}

// await waits until all accepted tasks are delivered. However many are left, it waits as long
// as their number falls.
func (f *fleet) await(t *testing.T, accepted []setOnce) {
	t.Helper()
	left := f.witness.missing(accepted)
	for since := time.Now(); len(left) > 0; time.Sleep(50 * time.Millisecond) {
		now := f.witness.missing(left)
		if len(now) < len(left) {
			left, since = now, time.Now()
		}
		if time.Since(since) > eternal {
			_, topic := f.live[0].stats(t)
			require.Empty(t, left, "tasks are lost, of %d; the store has %+v", len(accepted), topic.Counts)
		}
	}
}

// judge looks for the cause of each repeat.
func (f *fleet) judge(t *testing.T, s *setter, kills int) {
	require.Empty(t, f.witness.mistakes())
	require.Empty(t, s.refused)
	require.Len(t, f.killed, kills)
	accepted := s.all()
	require.Greater(t, len(accepted), 5*kills)
	calls, repeats, byNode := 0, 0, make(map[string]int)
	var latest time.Duration
	for set, all := range f.witness.seen() {
		calls += len(all)
		for i, d := range all[:len(all)-1] {
			repeats++
			byNode[d.node]++
			killed, was := f.killed[d.node]
			require.True(t, was, "%v was repeated, and nobody has killed the process that had it", set)
			if !d.answered.IsZero() {
				latest = max(latest, killed.Sub(d.answered))
				require.Less(t, killed.Sub(d.answered), settleTime, "%v was repeated, and settled long before its process was killed", set)
			}
			require.Greater(t, all[i+1].attempt, d.attempt, "%v", set)
		}
	}
	most := 0
	for _, n := range byNode {
		most = max(most, n)
	}
	t.Logf("%d kills, %d tasks accepted and none lost, %d set without an answer, %d calls, of which %d are repeats: %.1f a kill, at most %d, the latest answered %v before the kill",
		kills, len(accepted), s.unknown, calls, repeats, float64(repeats)/float64(kills), most, latest.Round(time.Millisecond))
	for _, p := range f.live {
		_, topic := p.stats(t)
		if topic.Here != nil {
			require.Zero(t, topic.Here.Early)
		}
	}
}
