package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
)

// maxFaults is how many faults are told in full.
const maxFaults = 50

// tally counts how connections ended. Its methods are safe for concurrent use.
type tally struct {
	mu        sync.Mutex
	ends      map[string]map[string]int // by kind, and by the server's last words
	verdicts  map[verdict]int
	nUndialed int // connections that were not opened
	nLost     int
	nFaults   int
	faults    []string // the first of them
}

func newTally() *tally {
	return &tally{ends: map[string]map[string]int{}, verdicts: map[verdict]int{}}
}

// undialed counts a connection that was not opened. served says whether the server has served meanwhile. Its client may
// have no address left.
func (t *tally) undialed(k *kind, served bool, err error) {
	t.mu.Lock()
	t.nUndialed++
	t.mu.Unlock()
	own := errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EADDRINUSE)
	if served && !own && !k.vanish { // its address goes at any moment
		t.fault("%s: not connected: %v", k.name, err)
	}
}

// ended counts an end by the server.
func (t *tally) ended(e ending, r rules) {
	v, why := r.judge(e)
	t.count(e.kind, e.text)
	t.mu.Lock()
	t.verdicts[v]++
	t.mu.Unlock()
	switch v {
	case early:
		t.fault("%s: early, %q: %s", e.kind.name, e.text, why)
	case wrong:
		t.fault("%s: wrong, %q: %s; %v after it came, %v after its last sign of life",
			e.kind.name, e.text, why, e.at.Sub(e.dialed), e.at.Sub(e.life))
	}
}

// left counts an end by the client.
func (t *tally) left(k *kind) { t.count(k, "(left)") }

// lost counts a dead client whose connection is still open.
func (t *tally) lost(e ending, g *generation) {
	if g.leaving.Load() {
		return
	}
	t.count(e.kind, "(lost)")
	t.mu.Lock()
	t.nLost++
	t.mu.Unlock()
	t.fault("%s: lost, its last sign of life was at %v", e.kind.name, e.life)
}

func (t *tally) count(k *kind, how string) {
	words := strings.Fields(how)
	how = strings.Join(words[:min(len(words), 3)], " ")
	if how == "" {
		how = "(no word)"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends[k.name] == nil {
		t.ends[k.name] = map[string]int{}
	}
	t.ends[k.name][how]++
}

// fault notes what must not be.
func (t *tally) fault(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nFaults++
	if len(t.faults) < maxFaults {
		t.faults = append(t.faults, fmt.Sprintf(format, args...))
	}
}

// write writes what was counted, and whether all was right.
func (t *tally) write(w io.Writer) (pass bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "clients\tended\thow")
	for _, k := range kinds {
		sum := 0
		var hows []string
		for _, how := range slices.Sorted(maps.Keys(t.ends[k.name])) {
			n := t.ends[k.name][how]
			sum += n
			hows = append(hows, fmt.Sprintf("%d %s", n, how))
		}
		fmt.Fprintf(table, "%s\t%d\t%s\n", k.name, sum, strings.Join(hows, ", "))
	}
	_ = table.Flush()
	fmt.Fprintf(w, "right %d, early %d, wrong %d, lost %d; %d were late by themselves, %d found no server\n",
		t.verdicts[right], t.verdicts[early], t.verdicts[wrong], t.nLost, t.verdicts[ownLate], t.nUndialed)
	for _, f := range t.faults {
		fmt.Fprintln(w, f)
	}
	if more := t.nFaults - len(t.faults); more > 0 {
		fmt.Fprintf(w, "and %d faults more\n", more)
	}
	if t.verdicts[right] == 0 {
		fmt.Fprintln(w, "no end was right: this run tells nothing")
		return false
	}
	if late := t.verdicts[ownLate]; late*1000 > t.verdicts[right] {
		fmt.Fprintf(w, "%d clients were late by themselves: this machine is too busy to tell\n", late)
		return false
	}
	return t.nFaults == 0
}
