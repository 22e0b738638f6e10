package keepalive

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/cow"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// Check is a policy of the program's own: each connection is inspected now and then, and closed if the program wants that, with
// the check's own [Reason]. It follows the rules of the others: Closing.MaxPerSecond bounds such closes, Closing.DryRun only
// counts them, and Stats, metrics and logs have them by name.
//
// A heartbeat does not put a check off, and neither does a Hold. Every connection costs the memory of one instant per check, and
// each inspection some microseconds. After a [Keeper.Update] that changes a name, an Every or the order of the checks, all
// checks of a connection begin anew. Another Inspect takes the place of the one before.
type Check struct {
	// Name is the check's name in logs and figures, and that of its Reason: lower-case letters, digits and underscores, from a
	// letter on, at most 40 of them. It must be unlike those of the other checks and of all reasons. A process may have 50 names.
	Name string

	// Every is how long after its opening a connection is inspected first, and how often from then on unless Inspect says
	// otherwise. It must be at least Tick.
	Every time.Duration

	// Inspect says when the connection is to be inspected next, and what comes of it now. With the verdict Close the connection
	// is closed; it stays with any other, such as Ignore. next counts from the end of the call: zero means Every, less than
	// Tick means Tick, and a negative one that this check does not come again.
	//
	// Inspect is called by one of a few workers, and on gnet in the connection's event loop, so it must not block. There are
	// no two calls for the same connection at the same time, and any number for different ones. Of several checks that are due,
	// the one that was due first is called first. A Close is void if the peer was heard during the call, and the next
	// inspection decides: after a negative next, that comes after Every. After a panic, or runtime.Goexit, the connection stays until the next inspection.
	Inspect func(g *Guard, info Info) (next time.Duration, verdict Verdict)
}

var checkName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// checkChecks checks Config.Checks.
func (cfg Config) checkChecks() error {
	var errs []error
	for i, c := range cfg.Checks {
		name := fmt.Sprintf("Checks[%d]", i)
		switch first := slices.IndexFunc(cfg.Checks, func(other Check) bool { return other.Name == c.Name }); {
		case !checkName.MatchString(c.Name):
			errs = append(errs, wrong("%s.Name %q, must be 1 to 40 lower-case letters, digits and underscores, from a letter on", name, c.Name))
		case slices.ContainsFunc(reasonTexts[:], func(r reasonText) bool { return r.name == c.Name }):
			errs = append(errs, wrong("%s.Name %q, is that of a reason", name, c.Name))
		case first < i:
			errs = append(errs, wrong("%s.Name %q, is that of Checks[%d]", name, c.Name, first))
		}
		if c.Every < cfg.Tick {
			errs = append(errs, wrong("%s.Every %v, must be at least Tick %v", name, c.Every, cfg.Tick))
		}
		if c.Inspect == nil {
			errs = append(errs, wrong("%s.Inspect, must not be nil", name))
		}
	}
	if _, err := withNames(slices.Clone(checkNames.All()), cfg.Checks); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// maxChecks is how many names of checks a process may have: a Reason is an index of the Keeper's counters.
const maxChecks = 50

// checkNames are the names of all checks in this process, in the order of their reasons. None goes away.
var checkNames cow.List[string]

// withNames adds the names of some checks to all names.
func withNames(all []string, checks []Check) ([]string, error) {
	for _, c := range checks {
		if !slices.Contains(all, c.Name) {
			all = append(all, c.Name)
		}
	}
	if len(all) > maxChecks {
		return nil, wrong("Checks with %d names in this process, must be at most %d", len(all), maxChecks)
	}
	return all, nil
}

// nameChecks gives the checks of a config their reasons.
func nameChecks(checks []Check) error {
	return checkNames.Change(func(all []string) ([]string, error) { return withNames(all, checks) })
}

// CheckReason returns the reason of connections closed by the check of that name, see [Config].Checks. It is 0 if no Keeper
// of this process has ever had one.
func CheckReason(name string) Reason {
	if i := slices.Index(checkNames.All(), name); i >= 0 {
		return reasons + Reason(i)
	}
	return 0
}

// checks are when the checks of a connection come.
type checks struct {
	set uint32       // see policy.checks
	at  []rules.Time // by their order in the config
}

// next returns the check that comes first, and when.
func (c *checks) next() (i int, at rules.Time) {
	at = slices.Min(c.at)
	return slices.Index(c.at, at), at
}

// checksNow returns when the next check comes, of the policy in force, or 0. mu must be held.
func (g *Guard) checksNow(p *policy, now rules.Time) rules.Time {
	if len(p.Checks) == 0 {
		return 0
	}
	c := g.extrasNow().checks
	if c == nil || c.set != p.checks {
		c = &checks{set: p.checks, at: make([]rules.Time, len(p.Checks))}
		for i, check := range p.Checks {
			c.at[i] = now.Add(check.Every)
		}
		g.extrasLocked().checks = c
	}
	_, at := c.next()
	return at
}

// inspect has the user inspect the connection, by the check that was due first.
func (v *visit) inspect() {
	v.mu.Lock()
	k, c := v.keeper, v.extrasLocked().checks
	v.mu.Unlock()
	i, _ := c.next() // only visits use them
	check := v.policy.Checks[i]
	next, verdict := check.Every, Ignore
	c.at[i] = k.now().Add(next) // after runtime.Goexit it is not due again at once
	info, open := v.Info()
	if !open { // it has been closed meanwhile
		return
	}
	socket, r := &v.seen.Socket, &v.report
	info.Received, info.Unread = socket.Arrived, socket.Unread
	info.Acked, info.Unacked, info.Retransmits = r.acked, r.unacked, r.retransmits
	info.SmoothedRTT, info.DeliveryRate = r.roundTrip, r.delivery
	v.call("Checks "+check.Name, func() {
		n, w := check.Inspect(v.Guard, info)
		next, verdict = cmp.Or(n, check.Every), w
	})
	if next < 0 && verdict == Close { // the verdict may turn out to be void
		next = check.Every
	}
	c.at[i] = k.now().Add(max(next, v.policy.Tick))
	if next < 0 {
		c.at[i] = rules.Never
	}
	if verdict == Close {
		v.closes = CheckReason(check.Name)
		v.seen.Checked = rules.Reason(v.closes)
	}
}
