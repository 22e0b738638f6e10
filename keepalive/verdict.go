package keepalive

import (
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// Verdict is what [Config.OnIdle], or a [Check], says about a connection.
type Verdict time.Duration

const (
	// Close closes the connection.
	Close = Verdict(rules.Condemn)

	// Probe calls Config.Probe.Send. The connection is closed with ReasonNoAnswer unless there
	// is life within Probe.Timeout. Without a Probe.Send it means Close.
	Probe = Verdict(rules.ProbeIt)

	// Ignore leaves the connection alone: OnIdle is not asked again for the same reason before
	// the peer has been heard and has fallen silent once more. After ReasonReadIdle and
	// ReasonWriteIdle only bytes count as heard.
	Ignore = Verdict(rules.Pardon)
)

// Extend is the verdict to let a connection stay for d more, for this once. Zero or less means
// Close.
func Extend(d time.Duration) Verdict { return Verdict(max(d, 0)) }

// ask asks OnIdle about a connection before its end. A panic, runtime.Goexit, and an invalid
// verdict mean Close.
func (v *visit) ask(why rules.Reason) {
	a := v.seen.Question(why, v.keeper.now())
	v.call("OnIdle", func() {
		if verdict := rules.Verdict(v.policy.OnIdle(v.conn, Reason(why))); verdict >= rules.Pardon {
			a.Verdict = verdict
		}
	})
}
