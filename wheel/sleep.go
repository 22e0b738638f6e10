package wheel

// The hand need not wake on a tick without a due timer. But a slot knows only the deadlines
// of its timers at their filing. So the hand goes through the slots of the ticks ahead, and
// files the touched timers again, a little earlier than it had to. The other timers are due
// for certain unless a touch still comes. The hand sleeps until the first of them, and
// wakes earlier if a timer with an earlier visit is filed.

// lookAhead files touched timers of the next ticks again. w.mu must be held; lookAhead lets
// go of it in between.
func (p *pass[V]) lookAhead() {
	if p.sleep == 1 {
		return
	}
	for p.looked = max(p.looked, p.tick); p.looked < p.tick+p.sleep; {
		p.looked++
		p.ahead = p.looked
		for c := p.levels.slotOf(p.ahead).first; c != nil; c = c.next {
			c.visit = p.hand // taken
		}
		p.taken = p.levels.takeTick(p.ahead, p.taken)
		p.visitTaken()
	}
}

// nextTick returns the tick of the hand's next waking.
func (p *pass[V]) nextTick() uint64 {
	next := p.tick + 1
	if p.backlog.len > 0 || p.held.first != nil { // workers may need help, a held timer may be moved
		return next
	}
	for next < p.tick+p.sleep && p.levels.slotOf(next).first == nil {
		next++
	}
	return next
}

// rouse makes the hand wake by a tick. w.mu must be held.
func (w *WheelOf[V]) rouse(tick uint64) {
	if at := w.clock.span(tick); at < w.wake {
		w.sleepUntil(at)
	}
}
