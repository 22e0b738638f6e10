package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// stopEnv says that this process is the one that is to be stopped.
const stopEnv = "HEARTWHEEL_BENCH_STOP"

// BenchmarkStop stops a process for 2 s in which 1000 connections send a
// heartbeat every 100 ms, with a timeout of 1 s, and reports how many of them were
// taken for dead. Their heartbeats come again as soon as the process goes on.
func BenchmarkStop(b *testing.B) {
	if os.Getenv(stopEnv) != "" {
		beStopped()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkStop$", "-test.benchtime=1x")
	cmd.Env = append(os.Environ(), stopEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var name string
		var expired int
		switch line := strings.TrimSpace(lines.Text()); {
		case strings.HasSuffix(line, "ready"):
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(2 * time.Second)
			_ = cmd.Process.Signal(syscall.SIGCONT)
		default:
			if n, _ := fmt.Sscanf(line, "expired %s %d", &name, &expired); n != 2 {
				continue
			}
			b.Run("impl="+name, func(b *testing.B) {
				b.ReportMetric(float64(expired), "live-expired")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func beStopped() {
	const conns = 1000
	var impls []impl
	var sets []deadlines
	for _, im := range everyone() {
		if im.sets {
			impls = append(impls, im)
		}
	}
	expired := make([]atomic.Int64, len(impls))
	for n, im := range impls {
		d := im.make(setting{conns: conns, tick: 10 * time.Millisecond, timeout: time.Second, expired: func(int) { expired[n].Add(1) }})
		for i := range conns {
			d.add(i, time.Second)
		}
		sets = append(sets, d)
	}
	for round := range 50 {
		if round == 15 {
			fmt.Println("\nready")
		}
		for _, d := range sets {
			for i := range conns {
				d.touch(i)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	for n, im := range impls {
		fmt.Printf("expired %s %d\n", im.name, expired[n].Load())
	}
}
