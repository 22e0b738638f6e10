package api

import (
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// effect reports whether a call without an error has changed something.
type effect func(timeout.Answer) bool

func movable(a timeout.Answer) bool    { return a.Was == timeout.Pending }
func replayable(a timeout.Answer) bool { return a.Was == timeout.Dead }
func removable(a timeout.Answer) bool  { return live(a) && a.Version == 0 }
func always(timeout.Answer) bool       { return true }
func vacant(a timeout.Answer) bool     { return !live(a) }

func live(a timeout.Answer) bool {
	return a.Was == timeout.Pending || a.Was == timeout.Running || a.Was == timeout.Dead
}

func setEffect(ifAbsent bool) effect {
	if ifAbsent {
		return vacant
	}
	return always
}

func answerOf(a timeout.Answer, has effect) wire.Answer {
	answer := wire.Answer{Was: a.Was, Version: a.Version, Due: wire.Instant{Time: a.Due}}
	if a.Err != nil {
		problem := problemOf(a.Err)
		answer.Error = &problem
		return answer
	}
	answer.Changed = has(a)
	return answer
}
