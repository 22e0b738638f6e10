package fleet

import (
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASlotIsTheHashOfTheIDOrOfWhatStandsInBraces(t *testing.T) {
	const all = 1 << 30
	require.Equal(t, 0xcbf43926&(all-1), slotAmong("123456789", all), "the check value of CRC-32")
	require.Equal(t, 0xcbf43926&15, slotAmong("123456789", 16))
	for id, basis := range map[string]string{"{a}b": "a", "c{a}b{d}": "a", "{{a}}": "{a", "{}a": "{}a", "a{b": "a{b", "a}b{": "a}b{", "": ""} {
		require.Equal(t, int(crc32.ChecksumIEEE([]byte(basis))&(all-1)), slotAmong(id, all), id)
	}
}
