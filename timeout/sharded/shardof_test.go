package sharded_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
)

// Changing one of these indices loses all stored tasks.
func TestTheShardOfATaskIsForEver(t *testing.T) {
	for _, want := range []struct {
		topic, id string
		of, index int
	}{
		{"orders", "1", 1, 0},
		{"orders", "1", 2, 1},
		{"orders", "1", 3, 2},
		{"orders", "1", 8, 5},
		{"orders", "1", 1024, 421},
		{"mails", "1", 8, 4},
		{"orders", "{user-7}/reminder", 8, 7},
		{"orders", "{user-7}/other", 8, 7},
		{"orders", "é", 5, 0},
	} {
		require.Equal(t, want.index, sharded.ShardOf(engine.Key{Topic: want.topic, ID: want.id}, want.of), "%+v", want)
	}
}

func TestShardsHaveAboutAsMuchEach(t *testing.T) {
	const count = 20_000
	for _, shards := range []int{2, 3, 8} {
		has := make([]int, shards)
		for i := range count {
			has[sharded.ShardOf(engine.Key{Topic: "orders", ID: fmt.Sprint(i)}, shards)]++
		}
		for index, n := range has {
			require.InEpsilon(t, count/shards, n, 0.2, "shard %d of %d", index, shards)
		}
	}
}

func TestASlotIsInOneShardWhereTheirNumbersArePowersOfTwo(t *testing.T) {
	for _, shards := range []int{2, 4, 8} {
		for _, slots := range []int{8, 64, 1024} {
			in := map[int]int{}
			for i := range 5000 {
				id := fmt.Sprint(i)
				index := sharded.ShardOf(engine.Key{Topic: "orders", ID: id}, shards)
				before, seen := in[engine.Slot(id, slots)]
				require.True(t, !seen || before == index)
				in[engine.Slot(id, slots)] = index
			}
		}
	}
}
