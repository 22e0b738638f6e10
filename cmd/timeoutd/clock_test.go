//go:build interop && linux && amd64

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// clockAhead is how far the clock of a process is ahead of the machine's.
const clockAhead = "HEARTWHEEL_TEST_CLOCK_AHEAD"

func init() {
	text := os.Getenv(clockAhead)
	if text == "" {
		return
	}
	ahead, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	setClock(ahead)
}

// shifted has the values that wrongNow needs for a time.Time.
var shifted struct {
	ahead time.Duration
	start int64 // the monotonic clock when the process began, nanoseconds
}

// moment is a time.Time with a monotonic reading, in the layout of package time: see the
// comment of time.Time.
type moment struct {
	wall uint64
	ext  int64
	loc  *time.Location
}

const (
	hasMonotonic = 1 << 63
	since1885    = 2682288000 // seconds from 1885, the zero of wall, to 1970
)

// setClock makes time.Now in this process tell another time than the machine. Go does not ask
// the C library for the time, so nothing outside the process can change it. So setClock
// overwrites the code of time.Now with a jump to wrongNow. The monotonic clock stays right,
// and with it the timers, as on a machine with a wrong time.
func setClock(ahead time.Duration) {
	now := time.Now()
	shifted.ahead = ahead
	shifted.start = readClock(clockMonotonic) - (*moment)(unsafe.Pointer(&now)).ext

	jump := []byte{0x49, 0xBB, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xFF, 0xE3} // MOVQ $target, R11; JMP R11
	binary.LittleEndian.PutUint64(jump[2:], uint64(reflect.ValueOf(wrongNow).Pointer()))
	code := unsafe.Pointer(reflect.ValueOf(time.Now).Pointer())
	page := uintptr(os.Getpagesize())
	pages := unsafe.Slice((*byte)(unsafe.Add(code, -int(uintptr(code)%page))), 2*page)
	if err := syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC); err != nil {
		panic(err)
	}
	copy(unsafe.Slice((*byte)(code), len(jump)), jump)
}

// wrongNow replaces time.Now.
func wrongNow() time.Time {
	wall := readClock(clockRealtime) + int64(shifted.ahead)
	seconds, nanoseconds := uint64(wall/1e9)+since1885, uint64(wall%1e9)
	m := moment{hasMonotonic | seconds<<30 | nanoseconds, readClock(clockMonotonic) - shifted.start, time.Local}
	return *(*time.Time)(unsafe.Pointer(&m))
}

const clockRealtime, clockMonotonic = 0, 1

func readClock(clock uintptr) int64 {
	var at syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&at)), 0); errno != 0 {
		panic(errno)
	}
	return at.Nano()
}

func TestNodesWhoseClocksAreFiveSecondsApart(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]func(t *testing.T) []string{
		"redis":    func(t *testing.T) []string { return []string{"REDIS_URL=" + newRedis(t).URL} },
		"postgres": func(t *testing.T) []string { return []string{"DATABASE_URL=" + testserver.Database(t)} },
		"redis-over-postgres": func(t *testing.T) []string {
			return []string{"DATABASE_URL=" + testserver.Database(t), "REDIS_URL=" + newRedis(t).URL}
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := env(t)
			t.Parallel()
			testApart(t, env)
		})
	}
}

func testApart(t *testing.T, env []string) {
	w, s := newWitness(t, nil), newSetter(t)
	var nodes []*process
	for _, ahead := range []string{"0s", "5s", "-5s"} {
		began := time.Now()
		p := start(t, w.employ(process{args: []string{"-ttl", "10s"}, env: append(env, clockAhead+"="+ahead)}, "ahead"+ahead))
		said, err := time.Parse(time.RFC3339, p.logged(t, `time=(\S+) level=INFO msg=listening`))
		require.NoError(t, err)
		expected, err := time.ParseDuration(ahead)
		require.NoError(t, err)
		require.WithinRange(t, said.Add(-expected), began.Add(-time.Second), time.Now().Add(time.Second), "its clock")
		nodes = append(nodes, p)
	}
	nodes[1].serveTopic(t, w, `"lease":"5s",`)
	var members []string
	agree := func(size int) bool {
		for i, p := range nodes[:size] {
			stats, topic := p.stats(t)
			var names []string
			for _, node := range stats.Members.Nodes {
				names = append(names, node.Name)
			}
			if i == 0 {
				members = names
			}
			if topic.Here == nil || !slices.Equal(names, members) || len(topic.Here.Slots) == 0 || len(stats.Members.Nodes) != size {
				return false
			}
		}
		return true
	}
	require.Eventually(t, func() bool { return agree(3) }, eternal, 200*time.Millisecond)
	agreed := members
	set := func(times map[string]time.Duration, by *process) { require.True(t, s.set(by.addr(t), times)) }
	for n := range 60 {
		after := make(map[string]time.Duration)
		for i := range 5 {
			after[fmt.Sprint("task-", n, "-", i)] = time.Duration(i*100) * time.Millisecond
		}
		set(after, nodes[n%3])
		time.Sleep(20 * time.Millisecond)
	}
	require.Eventually(t, func() bool { return len(w.missing(s.all())) == 0 }, eternal, 200*time.Millisecond)
	nodes[0].rests(t)
	require.True(t, agree(3))
	require.Equal(t, agreed, members, "nobody was taken for dead: it would come last")
	var latest time.Duration
	for set, all := range w.seen() {
		require.Len(t, all, 1, "%v", set)
		latest = max(latest, all[0].late)
	}
	require.Less(t, latest, 4*time.Second, "and nothing waits for a clock")

	// When a node dies, the others run its tasks in their time.
	after := make(map[string]time.Duration)
	for i := range 100 {
		after[fmt.Sprint("orphan-", i)] = 0
	}
	set(after, nodes[2])
	require.NoError(t, nodes[2].cmd.Process.Kill())
	began := time.Now()
	require.Eventually(t, func() bool { return len(w.missing(s.all())) == 0 && agree(2) }, eternal, 200*time.Millisecond)
	nodes[0].rests(t)
	require.Empty(t, w.mistakes())
	t.Logf("%d tasks, the latest %v after its time; the last %v after a node had died", len(s.all()), latest, time.Since(began))
}
