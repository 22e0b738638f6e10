package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// slowCalls is how many calls of a node to Redis may take too long. The node repeats them, and counts
// their losses apart.
const slowCalls = 3

var errNoAnswer = errors.New("no answer in time")

// Died returns the nodes that have ended by themselves, and how: the cause of all other faults.
func (r *Report) Died() []string { return r.died }

// Faults returns the other reasons why the fleet has not passed.
func (r *Report) Faults() (reasons []string) {
	fail := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	for _, fault := range []struct {
		n    int
		what string
	}{
		{r.Offlines.WrongLive, "sessions were told to be offline while their connections were open"},
		{r.Offlines.WrongBack, "sessions were told to be offline when they were back"},
		{r.Offlines.WrongDrained, "sessions were told to be offline whose node was ended in peace"},
		{r.Offlines.Unknown, "sessions were told to be offline with an epoch that nobody has had"},
		{r.Offlines.SilentLost, "sessions whose connections a node had closed were never told to be offline"},
		{r.findings.unsaid, "registrations were never told to be online"},
		{int(r.Lost), "leases were lost by nodes that were there"},
		{r.findings.abandoned, "sessions of nodes that have ended by themselves were never told to be offline"},
		{r.findings.backwards, "registrations had an epoch that was not higher than the one before"},
		{r.findings.early, "sessions of killed nodes were told to be offline before their leases can have ended"},
		{r.findings.forgotten, "clients that came back in time were new to their node"},
		{r.strange, "lines of gateways can't be understood, such as " + r.example},
	} {
		if fault.n > 0 {
			fail("%d %s", fault.n, fault.what)
		}
	}
	if r.Failures > int64(r.Nodes*slowCalls) {
		fail("%d calls to Redis have failed, where %d for each node are a slow moment", r.Failures, slowCalls)
	}
	if n := len(r.deviating); n > 0 {
		fail("%d nodes do not have the sessions of their clients: %s", n, strings.Join(r.deviating, "; "))
	}
	// With leases of nodes, leases of sessions are hardly ever extended.
	if r.NodeLeaseS == 0 && r.renewals < r.expected-r.expected/10 {
		fail("%d leases were extended in the steady phase, which takes %d at least", r.renewals, r.expected)
	}
	if o := r.Offlines; o.Crossed > o.Crossable {
		fail("%d sessions were told to be offline right after they were back, of which %d may be by chance", o.Crossed, o.Crossable)
	}
	if r.NotBack > 0 {
		fail("%d clients found no node until the end, after %d attempts, the first of which failed with: %v", r.NotBack, r.Attempts, cmp.Or(r.failure, errNoAnswer))
	}
	if k := r.Kill; k != nil {
		if k.Lost > 0 {
			fail("%d of %d sessions of killed nodes were never told to be offline", k.Lost, k.Sessions)
		}
		if k.Tardy > 0 {
			fail("%d of %d sessions of killed nodes were told to be offline more than %vs after %vs", k.Tardy, k.Sessions, k.MarginS, k.LimitS)
		}
		if k.Lost+k.Tardy > 0 && r.Held > 0 {
			fail("the fleet has held %d slots back, whose sessions are told a lease later: too many of a slot were to expire at once, or nobody has looked for a while", r.Held)
		}
	}
	return reasons
}
