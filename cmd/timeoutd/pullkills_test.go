//go:build interop && unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
)

// pullLease is the lease of a pulled task in these tests.
const pullLease = 2 * time.Second

// holder is a lease as a worker has seen it, by the engine's clock.
type holder struct {
	begin time.Time
	end   time.Time // zero if the worker may have ended it before its time
	won   bool      // the outcome done counted
}

// ledger has what all workers pulled and settled.
type ledger struct {
	mu      sync.Mutex
	held    map[setOnce][]*holder
	dropped int // by workers that were killed
	wrong   []string
}

// pulled notes a lease. It is exact however late that is: the lease says itself when it began.
func (l *ledger) pulled(set setOnce, due, until time.Time) *holder {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &holder{begin: until.Add(-pullLease), end: until}
	if h.begin.Before(due) {
		l.wrong = append(l.wrong, fmt.Sprint(set, " is early by ", due.Sub(h.begin)))
	}
	l.held[set] = append(l.held[set], h)
	return h
}

// change changes a lease that a worker has pulled.
func (l *ledger) change(h *holder, f func(*holder)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(h)
}

// judge compares the leases of each task: one begins when the one before has ended, and only the last
// one can be done.
func (l *ledger) judge() (pulls int, wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wrong = l.wrong
	for set, all := range l.held {
		pulls += len(all)
		slices.SortFunc(all, func(a, b *holder) int { return a.begin.Compare(b.begin) })
		for i, next := range all[1:] {
			if next.begin.Before(all[i].end) {
				wrong = append(wrong, fmt.Sprint(set, " is leased ", all[i].end.Sub(next.begin), " before the end of another lease"))
			}
			if all[i].won {
				wrong = append(wrong, fmt.Sprint(set, " is leased again after it was done"))
			}
		}
	}
	return pulls, wrong
}

func (l *ledger) missing(wanted []setOnce) (missing []setOnce) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, set := range wanted {
		if len(l.held[set]) == 0 {
			missing = append(missing, set)
		}
	}
	return missing
}

// goWorker pulls from random nodes, by the client package. It drops some of its tasks, as a killed
// worker does, and hands others back.
func (f *fleet) goWorker(ctx context.Context, l *ledger, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	for ctx.Err() == nil {
		c, err := timeoutclient.New("http://"+f.anyAddr(random), timeoutclient.Config{})
		if err != nil {
			panic(err)
		}
		leased, err := c.Pull(ctx, timeoutclient.Pull{Topic: "t", Max: 1 + random.IntN(20), Wait: 500 * time.Millisecond})
		if err != nil {
			time.Sleep(20 * time.Millisecond) // that node is dead
		}
		for _, one := range leased {
			h := l.pulled(setOnce{one.ID, one.Version}, one.Due, one.Until)
			switch random.IntN(20) {
			case 0: // killed
				l.change(h, func(*holder) { l.dropped++ })
				continue
			case 1:
				asked := time.Now()
				switch left, err := c.Extend(ctx, one.Token, pullLease); {
				case err != nil: // perhaps it was extended
					continue
				case left > 0:
					l.change(h, func(h *holder) { h.end = asked.Add(left) })
				}
			case 2, 3:
				l.change(h, func(h *holder) { h.end = time.Time{} })
				outcome := timeoutclient.Outcome{Returned: true}
				if random.IntN(2) == 0 {
					outcome = timeoutclient.Outcome{Error: "busy", RetryAfter: new(time.Duration)}
				}
				_, _ = c.Feedback(ctx, one.Token, outcome)
				continue
			}
			if settled, err := f.settle(ctx, one.Token, random); err == nil && settled {
				l.change(h, func(h *holder) { h.won = true })
			}
		}
		c.Close()
	}
}

// settle tells a node, and another one if that is dead.
func (f *fleet) settle(ctx context.Context, token string, random *rand.Rand) (settled bool, err error) {
	err = errors.New("nobody was asked")
	for range 3 {
		var c *timeoutclient.Client
		if c, err = timeoutclient.New("http://"+f.anyAddr(random), timeoutclient.Config{}); err != nil {
			return false, err
		}
		settled, err = c.Feedback(ctx, token, timeoutclient.Outcome{})
		c.Close()
		if err == nil {
			return settled, nil
		}
	}
	return false, err
}

func (f *fleet) anyAddr(random *rand.Rand) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addrs[random.IntN(len(f.addrs))]
}

// curlWorker is a process that pulls single tasks with curl from the nodes whose addresses are in a
// file. It writes down each pull, and each outcome that counted.
const curlWorker = `
while sleep 0.1; do
	at=http://$(shuf -n 1 "$nodes")/v1
	pulled=$(curl -sS -m 5 --json '{"wait":"500ms"}' "$at/topics/t/pull") || continue
	token=$(sed -n 's/.*"token":"\([^"]*\)".*/\1/p' <<<"$pulled")
	[ -n "$token" ] || continue
	id=$(sed -n 's/.*"id":"\([^"]*\)".*/\1/p' <<<"$pulled")
	version=$(sed -n 's/.*"version":\([0-9]*\).*/\1/p' <<<"$pulled")
	due=$(sed -n 's/.*"due":"\([^"]*\)".*/\1/p' <<<"$pulled")
	until=$(sed -n 's/.*"until":"\([^"]*\)".*/\1/p' <<<"$pulled")
	echo "pulled $id $version $due $until" >>"$log"
	case $(curl -sS -m 5 --json '{"token":"'$token'"}' "$at/feedback") in
	*'"settled":true'*) echo "settled" >>"$log" ;;
	esac
done`

// killCurl runs curl workers one after another until ctx ends, and kills each. While none has settled a
// task, each lives for longer than the one before: on a busy machine a pull takes seconds.
func (f *fleet) killCurl(ctx context.Context, t *testing.T, nodes, log string, seed uint64) (kills int) {
	random := rand.New(rand.NewPCG(seed, 3))
	least := 500 * time.Millisecond
	for ctx.Err() == nil {
		f.mu.Lock()
		list := strings.Join(f.addrs, "\n") + "\n"
		f.mu.Unlock()
		if err := os.WriteFile(nodes, []byte(list), 0o600); err != nil {
			t.Error(err)
			return kills
		}
		cmd := exec.Command("bash", "-c", curlWorker)
		cmd.Env = append(os.Environ(), "nodes="+nodes, "log="+log)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return kills
		}
		select {
		case <-time.After(least + time.Duration(random.IntN(1000))*time.Millisecond):
		case <-ctx.Done():
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		kills++
		if !hasSettled(log) {
			least += least / 2
		}
	}
	return kills
}

// hasSettled tells whether a curl worker with this log has settled a task.
func hasSettled(log string) bool {
	text, _ := os.ReadFile(log) // there is none before the first pull
	return strings.Contains(string(text), "settled")
}

// Workers in Go and in curl pull from all nodes. Nodes and workers are killed all the while. Each task
// is pulled, none before its time, none while another worker has it, and none is settled twice.
func TestPulledTasksSurviveTheDeathOfNodesAndWorkers(t *testing.T) {
	t.Parallel()
	program := build(t)
	for name, kills := range map[string]int{"redis": 10, "postgres": 10, "sqlite": 6, "memory in front of sqlite": 4} {
		t.Run(name, func(t *testing.T) {
			f, seed := newFleetOn(t, name, program)
			t.Parallel()
			if isLong() {
				kills *= 10
			}
			pullAndKill(t, kills, f, seed)
		})
	}
}

func pullAndKill(t *testing.T, kills int, f *fleet, seed uint64) {
	f.live[0].putTopic(t, "t", `{"pull":true,"lease":"`+pullLease.String()+`","retries":1000}`)
	l := &ledger{held: make(map[setOnce][]*holder)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, stop := newSetter(t), make(chan struct{})
	var setting, working sync.WaitGroup
	setting.Go(func() { f.load(s, "task", seed, stop) })
	for i := range 4 {
		working.Go(func() { f.goWorker(ctx, l, seed+uint64(i)) })
	}
	var logs [2]string
	var curls [2]int
	for i := range logs {
		dir := t.TempDir()
		logs[i] = filepath.Join(dir, "log")
		working.Go(func() { curls[i] = f.killCurl(ctx, t, filepath.Join(dir, "nodes"), logs[i], seed+uint64(i)) })
	}
	for range kills {
		time.Sleep(time.Duration(f.random.Int64N(int64(600 * time.Millisecond))))
		f.kill(t)
	}
	// Nobody kills nodes any more. Each kind of worker must have had its share before the load ends.
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return hasSettled(logs[0]) && hasSettled(logs[1]) && l.dropped > 0
	}, eternal, 50*time.Millisecond)
	close(stop)
	setting.Wait()
	f.live[0].rests(t)
	cancel()
	working.Wait()

	byCurl := 0
	for _, path := range logs {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var last *holder
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if words[0] == "settled" {
				last.won = true
				byCurl++
				continue
			}
			require.Len(t, words, 5, line)
			version, err := strconv.ParseInt(words[2], 10, 64)
			require.NoError(t, err)
			due, err := time.Parse(time.RFC3339, words[3])
			require.NoError(t, err)
			until, err := time.Parse(time.RFC3339, words[4])
			require.NoError(t, err)
			last = l.pulled(setOnce{words[1], version}, due, until)
		}
	}
	accepted := s.all()
	require.Empty(t, l.missing(accepted), "of %d", len(accepted))
	pulls, wrong := l.judge()
	require.Empty(t, wrong)
	require.Empty(t, s.refused)
	for _, p := range f.live {
		_, topic := p.stats(t)
		require.NotNil(t, topic.Here)
		require.Zero(t, topic.Here.Early)
		require.Zero(t, topic.Here.Postponed)
	}
	t.Logf("%d nodes killed, %d curl workers killed, %d tasks dropped by Go workers; %d tasks accepted and none lost, %d pulls, %d settled by curl",
		kills, curls[0]+curls[1], l.dropped, len(accepted), pulls, byCurl)
}
