package adaptertest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An adapter can't claim a property, or the lack of one, without a test that shows it.
func TestEachPropertyIsShown(t *testing.T) {
	has, lacks := map[property]int{}, map[property]int{}
	for _, one := range tests() {
		require.True(t, one.of == (property{}) || one.lack == (property{}), "%s shows a property and a lack", one.name)
		has[one.of]++
		lacks[one.lack]++
	}
	for _, p := range properties {
		require.Positive(t, has[p], "tests of %q", p.name)
	}
	nothing := Adapter{Datagrams: true, NoSocket: true, NoWait: true, InLoop: true}
	for _, p := range nothing.lacks() {
		require.Positive(t, lacks[p], "tests of the lack of %q", p.name)
	}
}
