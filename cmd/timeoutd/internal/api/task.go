package api

import (
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// These report whether a call without an error has changed something.

func isSet(task timeout.Task, a timeout.Answer) bool     { return !task.IfAbsent || !live(a) }
func isMoved(_ timeout.Move, a timeout.Answer) bool      { return a.Was == timeout.Pending }
func isRemoved(_ timeout.Removal, a timeout.Answer) bool { return live(a) && a.Version == 0 }
func isReplayed(_ timeout.Key, a timeout.Answer) bool    { return a.Was == timeout.Dead }

func live(a timeout.Answer) bool {
	return a.Was == timeout.Pending || a.Was == timeout.Running || a.Was == timeout.Dead
}

func answerOf(a timeout.Answer, changed bool) wire.Answer {
	answer := wire.Answer{Was: a.Was, Version: a.Version, Due: wire.Instant{Time: a.Due}}
	if a.Err != nil {
		problem := problemOf(a.Err)
		answer.Error = &problem
		return answer
	}
	answer.Changed = changed
	return answer
}
