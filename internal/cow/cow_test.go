package cow

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhoReadsSeesAWholeList(t *testing.T) {
	var l List[int]
	require.Empty(t, l.All())
	l.Add(1)
	before := l.All()
	l.Add(2)
	l.Remove(func(v int) bool { return v == 1 })
	require.Equal(t, []int{1}, before)
	require.Equal(t, []int{2}, l.All())

	no := errors.New("no")
	require.ErrorIs(t, l.Change(func(all []int) ([]int, error) { all[0] = 9; return all, no }), no)
	require.Equal(t, []int{2}, l.All())
}

func TestNoChangeIsLost(t *testing.T) {
	var l List[int]
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() { l.Add(i) })
		all.Go(func() { _ = len(l.All()) })
	}
	all.Wait()
	require.Len(t, l.All(), 50)
}
