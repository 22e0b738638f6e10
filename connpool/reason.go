package connpool

import "fmt"

// Reason is why the pool closed a connection.
type Reason uint8

const (
	// ReasonIdle means no use for [Config.MaxIdleTime].
	ReasonIdle Reason = iota + 1
	// ReasonMaxAge means the connection was as old as it may get.
	ReasonMaxAge
	// ReasonMaxIdle means there were more idle connections than [Config.MaxIdle], and this
	// was the idlest.
	ReasonMaxIdle
	// ReasonCheck means an error of [Config.Check] or [Config.CheckPut].
	ReasonCheck
	// ReasonDropped means its user dropped it.
	ReasonDropped
	// ReasonReset means a connection from before a [Pool.Reset].
	ReasonReset
	// ReasonClosed means the pool was closed.
	ReasonClosed

	reasons
)

var reasonNames = [reasons]string{
	ReasonIdle:    "idle",
	ReasonMaxAge:  "max_age",
	ReasonMaxIdle: "max_idle",
	ReasonCheck:   "check",
	ReasonDropped: "dropped",
	ReasonReset:   "reset",
	ReasonClosed:  "closed",
}

// Reasons returns all reasons, say for metrics.
func Reasons() []Reason {
	all := make([]Reason, 0, reasons-1)
	for r := ReasonIdle; r < reasons; r++ {
		all = append(all, r)
	}
	return all
}

// String returns the name of the reason, as in logs and metrics.
func (r Reason) String() string {
	if r == 0 || r >= reasons {
		return fmt.Sprintf("Reason(%d)", uint8(r))
	}
	return reasonNames[r]
}

// Counts is how many connections were closed, by [Reason].
type Counts [reasons]uint64
