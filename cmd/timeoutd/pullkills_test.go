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

// holder is a lease as a worker has seen it.
type holder struct {
	at    time.Time // of the answer
	until time.Time // the end of the lease, unless it was settled before
}

// ledger has what all workers pulled and settled.
type ledger struct {
	mu      sync.Mutex
	held    map[setOnce][]*holder
	settled map[setOnce]int // as done
	dropped int             // by workers that were killed
	wrong   []string
	late    time.Duration // the greatest of first attempts
}

func (l *ledger) pulled(set setOnce, attempt int, due, until, now time.Time) *holder {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &holder{now, until}
	if now.Before(due) {
		l.wrong = append(l.wrong, fmt.Sprint(set, " is early by ", due.Sub(now)))
	}
	if attempt == 1 {
		l.late = max(l.late, now.Sub(due))
	}
	for _, other := range l.held[set] {
		if now.Before(other.until) {
			l.wrong = append(l.wrong, fmt.Sprint(set, " is pulled ", other.until.Sub(now), " before the end of another lease"))
		}
	}
	if l.settled[set] > 0 {
		l.wrong = append(l.wrong, fmt.Sprint(set, " is pulled after it was settled"))
	}
	l.held[set] = append(l.held[set], h)
	return h
}

func (l *ledger) done(set setOnce) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled[set]++; l.settled[set] > 1 {
		l.wrong = append(l.wrong, fmt.Sprint(set, " is settled twice"))
	}
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
		now := time.Now()
		if err != nil {
			time.Sleep(20 * time.Millisecond) // that node is dead
		}
		for _, one := range leased {
			set := setOnce{one.ID, one.Version}
			h := l.pulled(set, one.Attempts, one.Due, one.Until, now)
			switch random.IntN(20) {
			case 0: // killed
				l.mu.Lock()
				l.dropped++
				l.mu.Unlock()
				continue
			case 1:
				asked := time.Now()
				if left, err := c.Extend(ctx, one.Token, pullLease); err == nil && left > 0 {
					l.mu.Lock()
					h.until = asked.Add(left)
					l.mu.Unlock()
				} else if err != nil { // perhaps it was extended
					continue
				}
			case 2:
				l.free(h)
				_, _ = c.Feedback(ctx, one.Token, timeoutclient.Outcome{Error: "busy", RetryAfter: new(time.Duration)})
				continue
			case 3:
				l.free(h)
				_, _ = c.Feedback(ctx, one.Token, timeoutclient.Outcome{Returned: true})
				continue
			}
			if settled, err := f.settle(ctx, one.Token, random); err == nil && settled {
				l.done(set)
			}
		}
		c.Close()
	}
}

// free says that the lease may end before its time.
func (l *ledger) free(h *holder) {
	l.mu.Lock()
	h.until = time.Time{}
	l.mu.Unlock()
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
while sleep 0.02; do
	at=http://$(shuf -n 1 "$nodes")/v1
	pulled=$(curl -sS -m 5 --json '{"wait":"500ms"}' "$at/topics/t/pull") || continue
	token=$(sed -n 's/.*"token":"\([^"]*\)".*/\1/p' <<<"$pulled")
	[ -n "$token" ] || continue
	id=$(sed -n 's/.*"id":"\([^"]*\)".*/\1/p' <<<"$pulled")
	version=$(sed -n 's/.*"version":\([0-9]*\).*/\1/p' <<<"$pulled")
	echo "pulled $id $version" >>"$log"
	case $(curl -sS -m 5 --json '{"token":"'$token'"}' "$at/feedback") in
	*'"settled":true'*) echo "settled $id $version" >>"$log" ;;
	esac
done`

// killCurl runs curl workers one after another until ctx ends, and kills each.
func (f *fleet) killCurl(ctx context.Context, t *testing.T, nodes, log string, seed uint64) (kills int) {
	random := rand.New(rand.NewPCG(seed, 3))
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
		case <-time.After(time.Duration(500+random.IntN(1000)) * time.Millisecond):
		case <-ctx.Done():
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		kills++
	}
	return kills
}

// Workers in Go and in curl pull from all nodes. Nodes and workers are killed all the while. Each task
// is pulled, none before its time, none while another worker has it, and none is settled twice.
func TestPulledTasksSurviveTheDeathOfNodesAndWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		kills, processes int
		with             func(t *testing.T) process
	}{
		"redis":    {10, 3, func(t *testing.T) process { return process{env: []string{"REDIS_URL=" + redisServer(t)}} }},
		"postgres": {10, 3, func(t *testing.T) process { return process{env: []string{"DATABASE_URL=" + postgresServer(t)}} }},
		"sqlite": {6, 1, func(t *testing.T) process {
			return process{args: []string{"-sqlite", filepath.Join(t.TempDir(), "tasks.db")}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			with := c.with(t)
			with.args = append(with.args, "-ttl", "3s")
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			if isLong() {
				c.kills *= 10
			}
			pullAndKill(t, c.kills, newFleet(t, c.processes, seed, newWitness(t, nil), with), seed)
		})
	}
}

func pullAndKill(t *testing.T, kills int, f *fleet, seed uint64) {
	f.live[0].putTopic(t, "t", `{"pull":true,"lease":"`+pullLease.String()+`","retries":1000}`)
	l := &ledger{held: make(map[setOnce][]*holder), settled: make(map[setOnce]int)}
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
		for _, path := range logs {
			if text, _ := os.ReadFile(path); !strings.Contains(string(text), "settled") {
				return false
			}
		}
		return l.dropped > 0
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
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			require.Len(t, words, 3, line)
			version, err := strconv.ParseInt(words[2], 10, 64)
			require.NoError(t, err)
			set := setOnce{words[1], version}
			if words[0] == "settled" {
				l.done(set)
				byCurl++
			} else {
				l.held[set] = append(l.held[set], &holder{})
			}
		}
	}
	accepted := s.all()
	require.Empty(t, l.missing(accepted), "of %d", len(accepted))
	require.Empty(t, l.wrong)
	require.Empty(t, s.refused)
	pulls := 0
	for _, all := range l.held {
		pulls += len(all)
	}
	for _, p := range f.live {
		_, topic := p.stats(t)
		require.NotNil(t, topic.Here)
		require.Zero(t, topic.Here.Early)
		require.Zero(t, topic.Here.Postponed)
	}
	t.Logf("%d nodes killed, %d curl workers killed, %d tasks dropped by Go workers; %d tasks accepted and none lost, %d pulls, %d settled by curl, late by at most %v",
		kills, curls[0]+curls[1], l.dropped, len(accepted), pulls, byCurl, l.late.Round(time.Millisecond))
}
