package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// orderOf is the environment variable with the order of a node.
const orderOf = "HEARTWHEEL_BENCH_FLEET"

type order struct {
	Way       string
	URL       string
	Node      int
	From, To  int // its sessions
	Heartbeat time.Duration
}

func (o order) name() string                { return fmt.Sprint("node-", o.Node) }
func (o order) id(i int) string             { return fmt.Sprintf("session-%09d", i) }
func (o order) count() int                  { return o.To - o.From }
func (o order) per(d time.Duration) float64 { return float64(o.count()) / d.Seconds() }

// state is what a node says of itself.
type state struct {
	CPU     float64 // seconds
	Writes  uint64
	Wanted  float64 // writes per second
	Bytes   float64 // by which it has grown for its sessions
	Offline int
}

// working is a node at work.
type working interface {
	state() state // without CPU and Bytes
	stop()
}

// runNode is the process of a node: it answers each line with its state, until there are no more.
func runNode(ctx context.Context, text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	start := ways.find(o.Way)
	if start == nil {
		return fmt.Errorf("nothing is called %q", o.Way)
	}
	before := heap()
	w, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer w.stop()
	grown := float64(heap() - before)
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		s := w.state()
		s.CPU, s.Bytes = processor(), grown
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) + int64(m.StackInuse)
}

// processor returns the processor time of this process.
func processor() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// node is the process of a node, seen from outside.
type node struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// startNode starts a node. It ends when ctx is done.
func startNode(ctx context.Context, o order) (*node, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), orderOf+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return &node{cmd, in, json.NewDecoder(out)}, cmd.Start()
}

// ask waits for its state.
func (n *node) ask() (s state, err error) {
	if _, err := io.WriteString(n.in, "how?\n"); err != nil {
		return s, fmt.Errorf("a node has ended: %w", err)
	}
	if err := n.out.Decode(&s); err != nil {
		return s, fmt.Errorf("a node has ended: %w", err)
	}
	return s, nil
}

func (n *node) stop() {
	n.in.Close()
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}
