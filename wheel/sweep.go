package wheel

// Removing a timer leaves its entry in the slot, and so does moving it to an
// earlier tick. The hand drops such leftovers when it comes by, which for long
// delays is late: under churn they would pile up. So where leftovers outnumber
// the entries that count, each Add and each tick sweeps a few entries on its
// way, round and round over all slots. There are never many more than as many
// leftovers as pending timers, plus sweepFloor.
const (
	sweepFloor   = 1024
	sweepPerAdd  = 8
	sweepPerTick = 4096
)

// broom is where sweeping goes on.
type broom struct{ slot, at int }

// sweep looks at up to most entries and drops leftovers, if there are too many
// of them. w.mu must be held.
func (w *WheelOf[V]) sweep(most int) {
	count := int(w.live.Load()) - len(w.due)
	if w.entries <= 2*count+sweepFloor {
		return
	}
	b := &w.broom
	visit, _ := w.levels.next(w.hand, b.slot)
	for ; most > 0; most-- {
		s := w.levels.slots[b.slot]
		if b.at >= len(s) {
			b.slot, b.at = (b.slot+1)%len(w.levels.slots), 0
			visit, _ = w.levels.next(w.hand, b.slot)
			continue
		}
		t := s[b.at]
		if t.filed == uint32(visit) && t.word.Load()&stateMask == pending {
			b.at++
			continue
		}
		last := len(s) - 1
		s[b.at], s[last] = s[last], nil
		w.levels.slots[b.slot] = s[:last]
		w.entries--
		w.swept++
	}
}
