package wheel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlaceIsVisitedInTimeAndByTake(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, sizes := range append(modelLevels, []int{60, 60, 24, 7}, []int{512, 64, 64}) {
		t.Run(fmt.Sprintf("levels=%v", sizes), func(t *testing.T) {
			l := makeLevels[int](sizes)
			turn := uint64(1)
			for _, s := range sizes {
				turn *= uint64(s)
			}
			for range 5000 {
				hand := rnd.Uint64N(5 * turn)
				due := hand + 1 + rnd.Uint64N(1+rnd.Uint64N(3*turn))
				slot, visit := l.place(hand, due)
				require.Greater(t, visit, hand)
				require.LessOrEqual(t, visit, due)
				require.LessOrEqual(t, visit-hand, turn)

				next, unit := l.next(hand, slot)
				require.Equal(t, visit, next, "next must know what place said")
				if due-hand < turn-turn/uint64(sizes[len(sizes)-1]) {
					require.Less(t, due-visit, unit, "no visit in vain, within a turn")
				}

				timer := new(TimerOf[int])
				require.Equal(t, slot, l.file(timer, hand, due))
				require.Equal(t, visit, l.slots.visitOf(timer))
				turn := l.take(visit, nil)
				require.Len(t, turn, 1)
				require.Equal(t, []*TimerOf[int]{timer}, turn[0].timers(nil))
				l.slots.giveBack(turn[0])
			}
		})
	}
}

func TestAWeekTakes151Slots(t *testing.T) {
	l := makeLevels[int]([]int{60, 60, 24, 7})
	require.Len(t, l.slot, 151)
	const week = 7 * 24 * 60 * 60
	slot, visit := l.place(0, week-1)
	require.EqualValues(t, 6*24*60*60, visit)
	require.Equal(t, 150, slot)
}
