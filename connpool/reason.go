package connpool

import "fmt"

// Reason is why the pool closed a connection.
type Reason uint8

const (
	// ReasonIdle is that nobody has used it for [Config.MaxIdleTime].
	ReasonIdle Reason = iota + 1
	// ReasonMaxAge is that it was as old as it may get.
	ReasonMaxAge
	// ReasonMaxIdle is that there were more idle ones than [Config.MaxIdle], and it
	// was the idlest.
	ReasonMaxIdle
	// ReasonCheck is that [Config.Check] or [Config.CheckPut] said so.
	ReasonCheck
	// ReasonDropped is that its user dropped it.
	ReasonDropped
	// ReasonReset is that it was from before a [Pool.Reset].
	ReasonReset
	// ReasonClosed is that the pool was closed.
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

// Reasons returns all reasons, for whoever needs the whole set, such as metrics.
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
