package keepalive

import "time"

// Verdict is what [Config.OnIdle] says about a connection.
type Verdict time.Duration

const (
	// Close is the verdict that an idle connection is to be closed.
	Close Verdict = 0

	// Probe is the verdict that an idle connection is to be probed: Config.Probe is
	// called, and it is closed with ReasonNoAnswer unless there is life within
	// Config.ProbeTimeout. Where there is no Config.Probe it means Close.
	Probe Verdict = -1

	// Ignore is the verdict that this silence is nothing to worry about: OnIdle is not
	// asked again before the peer has been heard and has fallen silent once more.
	Ignore Verdict = -2
)

// Extend is the verdict that an idle connection may stay for d more, for this
// once. Zero or less means Close.
func Extend(d time.Duration) Verdict { return Verdict(max(d, 0)) }
