package fleet

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSlowFunctionsCostNoSessionThatIsRegisteredAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const count = 1000
		f := &fleetOf{shared: newShared(nodeConfig)}
		cfg := nodeConfig
		var mu sync.Mutex
		epochs := make(map[string][]int64)
		cfg.OnOnline = func(o Online) {
			if o.Again {
				time.Sleep(200 * time.Millisecond) // one by one, these are longer than a lease
			}
			mu.Lock()
			defer mu.Unlock()
			epochs[o.Session] = append(epochs[o.Session], o.Epoch)
		}
		n := f.add(t, "node", cfg)
		for i := range count {
			register(t, n, fmt.Sprint(i))
		}
		for _, server := range []string{"b", "c"} {
			time.Sleep(31 * time.Second)
			f.set(func() { f.model.lose(); f.model.server = server })
		}
		time.Sleep(time.Minute)
		require.Equal(t, count, n.Len())
		require.Zero(t, n.Stats().Lost)
		mu.Lock()
		defer mu.Unlock()
		for id, told := range epochs {
			require.Len(t, told, 3, id)
			require.IsIncreasing(t, told, id)
		}
		require.Len(t, epochs, count)
	})
}

func TestClosingWaitsForWhatIsToldOfSessionsThatWereRegisteredAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fleetOf{shared: newShared(nodeConfig)}
		cfg := nodeConfig
		var told []string
		cfg.OnOnline = func(o Online) {
			if o.Again {
				time.Sleep(time.Hour)
				told = append(told, o.Session)
			}
		}
		n := f.add(t, "node", cfg)
		register(t, n, "a")
		f.set(func() { f.model.lose(); f.model.server = "b" })
		time.Sleep(time.Minute)
		require.NoError(t, n.Close())
		require.Equal(t, []string{"a"}, told)
	})
}
