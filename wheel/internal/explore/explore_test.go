package explore_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/wheel/internal/explore"
)

var full = flag.Bool("full", false, "explore to the full depth: some minutes")

// small makes small what would only take time for each run.
var small = []patch{
	{"lag.go", "lagRing  = 4096", "lagRing  = 32"},
	{"timingwheel.go", "const shardBits = 6", "const shardBits = 1"},
}

// single has a chunk for each timer. The hand lets go of the lock after each chunk.
var single = []patch{
	{"slots.go", "chunkSize = 1<<chunkBits - 5", "chunkSize = 1"},
	{"hand.go", "breath = 8", "breath = 1"},
}

const (
	product = "the product"
	lonely  = "the product, with a chunk for each timer"
	shards  = 8 // of the product: then no processor waits for long at the end
)

// TestExplore explores the product's own code, and copies with faults. It must find each fault,
// and none in the product.
func TestExplore(t *testing.T) {
	copies := map[string][]patch{product: small, lonely: slices.Concat(small, single)}
	mutants := mutants
	if !*full {
		mutants = mutants[:quick]
	}
	for _, m := range mutants {
		copies[m.name] = slices.Concat(small, m.patches)
	}
	explorer := build(t, copies)

	var found sync.Map // by the name of the copy
	var sum sums
	var jobs []func()
	for shard := range shards {
		for name, only := range map[string]string{product: "", lonely: "two timers"} {
			jobs = append(jobs, func() {
				r := explorer.run(t, "-copy", name, "-only", only, fmt.Sprintf("-full=%v", *full),
					"-shard", strconv.Itoa(shard), "-shards", strconv.Itoa(shards))
				sum.add(name, r)
				if r.Failure != nil {
					found.Store(name, r.Failure)
				}
			})
		}
	}
	for _, m := range mutants {
		jobs = append(jobs, func() {
			if r := explorer.run(t, "-copy", m.name, "-hunt"); r.Failure != nil {
				found.Store(m.name, r.Failure)
			}
		})
	}
	inParallel(jobs)

	t.Log(&sum)
	for _, name := range []string{product, lonely} {
		if f, ok := found.Load(name); ok {
			t.Errorf("%s has a fault:\n%v", name, f)
		}
	}
	for _, m := range mutants {
		f, ok := found.Load(m.name)
		if !ok {
			t.Errorf("not found: %s", m.name)
			continue
		}
		t.Logf("found: %s\n%v", m.name, f)
	}
}

// explorer is the path of a program.
type explorer string

// run explores one copy.
func (e explorer) run(t *testing.T, args ...string) (r explore.Report) {
	cmd := exec.Command(string(e), args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=1000") // the next job has the other processor
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Errorf("%v: %v\n%s", args, err, &said)
	}
	return r
}

// inParallel does the jobs, as many at a time as there are processors.
func inParallel(jobs []func()) {
	next := make(chan func())
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for job := range next {
				job()
			}
		})
	}
	for _, job := range jobs {
		next <- job
	}
	close(next)
	all.Wait()
}

// sums are the figures of the product.
type sums struct {
	mu      sync.Mutex
	classes []explore.Class
}

func (s *sums) add(copied string, r explore.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range r.Classes {
		c.Name = copied + ": " + c.Name
		i := slices.IndexFunc(s.classes, func(other explore.Class) bool { return other.Name == c.Name })
		if i < 0 {
			s.classes = append(s.classes, c)
			continue
		}
		sum := &s.classes[i]
		sum.Scenarios += c.Scenarios
		sum.Runs += c.Runs
		sum.Cut += c.Cut
		sum.Took += c.Took
	}
}

func (s *sums) String() string {
	slices.SortFunc(s.classes, func(a, b explore.Class) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	b.WriteString("interleavings, and those left out since they differ only in the order of independent steps:\n")
	for _, c := range s.classes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

func TestPatchThatDoesNotFitSaysSo(t *testing.T) {
	p := patch{"timer.go", "no such line", ""}
	require.ErrorContains(t, p.apply(sources(t)), "timer.go has this piece 0 times")
}
