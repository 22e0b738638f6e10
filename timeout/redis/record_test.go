package redis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func FuzzWhatIsKeptIsReadOrRefused(f *testing.F) {
	body := bodyOf(&engine.Task{Payload: []byte("p"), Callback: &engine.Callback{Kind: "http", Target: "t"}})
	f.Add("1234567"+body, "1234567"+"1234"+"123456"+"1234"+"\x02n1error", "1795260000000")
	f.Add("1234567\x02payload", "1234567"+"1234"+"123456"+"1234"+"\x02n1error"+"123456"+"1234"+"1234"+"\xff", "1795260000000")
	f.Add("1234567\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "", "")
	f.Add("", "1234567"+"1234"+"123456"+"1234"+"\xff", "x")
	f.Fuzz(func(t *testing.T, body, record, score string) {
		var task engine.Task
		if err := complete(&task, body, record, score); err == nil {
			require.LessOrEqual(t, len(task.Payload), len(body))
			require.LessOrEqual(t, len(task.Node)+len(task.Error), len(record))
		}
	})
}

func TestALeaseAsItIsKeptIsTheNumberThatTheSlotGave(t *testing.T) {
	for _, n := range []int64{1, 255, 1 << 51, 1<<53 - 1} {
		key, ok := leaseKey(leaseOf(n, 1023))
		require.True(t, ok)
		require.Equal(t, n, number7(key))
	}
	for _, none := range []int64{0, 1023, -1, -1 << 62} {
		_, ok := leaseKey(none)
		require.False(t, ok, "it would be what is kept where there is no lease")
	}
}
