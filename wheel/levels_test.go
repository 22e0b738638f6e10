package wheel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestPlaceIsVisitedInTimeAndByTake(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	places := 5000
	if testmain.Race {
		places /= 5
	}
	for _, sizes := range append(modelLevels, []int{60, 60, 24, 7}, []int{512, 64, 64}) {
		t.Run(fmt.Sprintf("levels=%v", sizes), func(t *testing.T) {
			l := makeLevels[int](sizes)
			turn := uint64(1)
			for _, s := range sizes {
				turn *= uint64(s)
			}
			for range places {
				hand := rnd.Uint64N(5 * turn)
				due := hand + 1 + rnd.Uint64N(1+rnd.Uint64N(3*turn))
				slot, visit := l.place(hand, due)
				require.Greater(t, visit, hand)
				require.LessOrEqual(t, visit, due)
				require.LessOrEqual(t, visit-hand, l.level[len(sizes)-1].size*l.level[len(sizes)-1].unit)

				next, unit := l.next(hand, slot)
				require.Equal(t, visit, next, "next must know what place said")
				if due-hand <= turn+1 { // a delay of a turn has a tick on top
					require.Less(t, due-visit, unit, "no visit in vain, within a turn")
				}

				timer := new(TimerOf[int])
				l.file(timer, hand, due)
				require.Same(t, &l.slot[slot], l.slots.chunks[timer.filed>>chunkBits].slot)
				require.Equal(t, visit, l.slots.chunkOf(timer).visit)
				last := visit // last tick to take it on
				if unit > 1 || len(sizes) > 1 && slot >= l.level[1].first {
					last--
					require.GreaterOrEqual(t, last, hand+unit, "a whole block to move it in")
				}
				turn := l.take(last)
				require.NotNil(t, turn)
				require.Nil(t, turn.next)
				require.Equal(t, []*TimerOf[int]{timer}, turn.timers(nil))
				l.slots.giveBack(turn)
			}
		})
	}
}

// Timers of one tick with deadlines beyond the top level are spread over all its slots. Each
// visit but the first and the last brings a timer a whole revolution further.
func TestTimersBeyondTheTopLevelGoRound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for _, sizes := range modelLevels {
		t.Run(fmt.Sprintf("levels=%v", sizes), func(t *testing.T) {
			l := makeLevels[int](sizes)
			top, revolution := l.level[len(sizes)-1], uint64(sizes[len(sizes)-1])
			for range 20 {
				hand := rnd.Uint64N(3 * revolution * top.unit)
				at := hand / top.unit
				timers := map[int]int{}
				for ahead := top.size; ahead < top.size+10*revolution; ahead++ {
					slot, visit := l.place(hand, (at+ahead)*top.unit)
					timers[slot]++
					visits := uint64(1)
					for ; visit < (at+ahead)*top.unit; visits++ {
						_, visit = l.place(visit-uint64(min(len(sizes)-1, 1)), (at+ahead)*top.unit)
					}
					require.LessOrEqual(t, visits, 1+ahead/revolution, "hand %d, %d slots ahead", hand, ahead)
				}
				require.Len(t, timers, int(revolution))
				for slot, n := range timers {
					require.Equal(t, 10, n, "in slot %d, hand %d", slot, hand)
				}
			}
		})
	}
}

// Two revolutions of seconds, minutes and hours; a week, and two days more.
func TestAWeekTakes297Slots(t *testing.T) {
	l := makeLevels[int]([]int{60, 60, 24, 7})
	require.Len(t, l.slot, 297)
	const week = 7 * 24 * 60 * 60
	slot, visit := l.place(0, week-1)
	require.EqualValues(t, 6*24*60*60, visit)
	require.Equal(t, 294, slot)
}

// The timers of a block go down in the last ticks of the block before, each tick its share.
func TestBlockMovesDownInShares(t *testing.T) {
	for _, block := range []uint64{moveTicks, 1000} {
		for _, early := range []uint64{0, 10} {
			l := makeLevels[int]([]int{int(block), 64})
			l.early = early
			const timers = 500_000
			for range timers {
				l.file(new(TimerOf[int]), 0, 2*block+7)
			}
			moved := 0
			for tick := block; tick < 2*block; tick++ {
				now := 0
				for _, timer := range l.take(tick).timers(nil) {
					l.file(timer, tick, 2*block+7)
					now++
				}
				require.LessOrEqual(t, now, timers/450, "on tick %d", tick)
				inPlace := 2*block - early
				require.Equal(t, inPlace-moveTicks <= tick && tick < inPlace, now > 0, "on tick %d", tick)
				if moved += now; tick >= inPlace {
					require.Equal(t, timers, moved, "before tick %d", tick)
				}
			}
			require.Equal(t, timers, moved)
			require.Equal(t, timers, l.slot[7].len, "all in the slot of their tick")
		}
	}
}

// next returns the tick of the hand's next visit to a slot, and the ticks of the slot.
func (l *levels[V]) next(hand uint64, slot int) (visit, unit uint64) {
	i := len(l.level) - 1
	for l.level[i].first > slot {
		i--
	}
	v := &l.level[i]
	block := hand/v.unit + 1
	return (block + (uint64(slot-v.first)+v.size-block%v.size)%v.size) * v.unit, v.unit
}

// file makes the entry of a timer. due must be later than hand.
func (l *levels[V]) file(t *TimerOf[V], hand, due uint64) {
	slot, visit := l.place(hand, due)
	l.slots.put(&l.slot[slot], visit, t)
}
