package fleet

import (
	"fmt"
	"time"
)

// Rows calls row with each row of the table about the fleet.
func (r *Report) Rows(row func(format string, args ...any)) {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Millisecond) }
	leases := fmt.Sprintf("lease %v, renewed every %v", seconds(r.LeaseS), seconds(r.RenewS))
	if r.NodeLeaseS > 0 {
		leases = fmt.Sprintf("a node's lease %v", seconds(r.NodeLeaseS))
	}
	row("fleet\t%d nodes\tsessions %d\trenewals %.0f/s\t%s", r.Nodes, r.Sessions, r.RenewalsPerSecond, leases)
	for _, n := range r.ByNode {
		row("  %s\tsessions %d\t%.3f cores\t%.1f MB\trenewals %.0f/s", n.Name, n.Sessions, n.Cores, float64(n.RSSBytes)/1e6, n.RenewalsPerSecond)
	}
	if redis := r.Redis; redis != nil {
		row("  Redis\tsteady %.3f cores\tafter %.3f cores\t%.1f MB\t", redis.SteadyCores, redis.AfterCores, float64(redis.RSSBytes)/1e6)
	} else {
		row("  Redis\tnot our own\t\t\tkeys are left that begin with %s", r.Prefix)
	}
	if k := r.Kill; k != nil {
		row("killed\tnodes %d\tsessions %d\tback %d\tof those after offline %d", len(k.Nodes), k.Sessions, k.Back, k.BackAfterEnd)
		row("  offline\ttold %d\tlost %d\tlater than %v %d\t", k.Told, k.Lost, seconds(k.LimitS), k.Late)
		if k.Told > 0 {
			row("  after\tp50 %.2f s\tp99 %.2f s\tmax %.2f s\tfirst %.2f s", k.DetectionMs.P50/1000, k.DetectionMs.P99/1000, k.DetectionMs.Max/1000, k.FirstMs/1000)
		}
	}
	if d := r.Rolling; d != nil {
		row("restarted\tnodes %d\tresumed %d\tmoved %d\tanew %d", d.Restarts, d.Resumed, d.Moved, d.Anew)
		row("  without a node\tp50 %.0f ms\tp99 %.0f ms\tmax %.0f ms\t", d.GapMs.P50, d.GapMs.P99, d.GapMs.Max)
	}
	o := r.Offlines
	row("offlines\ttold %d\twrong %d\tcrossed %d\tby %.0f ms at most, repeated %d, unwelcome %d", o.Told, o.Wrong(), o.Crossed, o.CrossedMs, o.Repeated, o.Unwelcome)
	row("nodes say\trefused %d\tlost leases %d\theld %d\tfailed calls %d, attempts of clients %d", r.Refused, r.Lost, r.Held, r.Failures, r.Attempts)
}
