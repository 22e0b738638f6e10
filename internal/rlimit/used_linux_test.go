package rlimit

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// openFiles opens n more descriptors until the end of the test, and skips the test if the limit is too
// low.
func openFiles(tb testing.TB, n int) {
	if _, err := Raise(Open() + n + 100); err != nil {
		tb.Skip(err)
	}
	for range n {
		fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		require.NoError(tb, err)
		tb.Cleanup(func() { syscall.Close(fd) })
	}
}

func TestUsedRisesByWhatIsOpened(t *testing.T) {
	const n = 1000
	if _, err := Raise(Open() + n + 100); err != nil {
		t.Skip(err)
	}
	limit, ok := Files()
	require.True(t, ok)
	before, ok := Used()
	require.True(t, ok)
	openFiles(t, n)
	after, ok := Used()
	require.True(t, ok)
	require.InDelta(t, n, (after-before)*float64(limit), 0.001)
	require.InDelta(t, float64(Open())/float64(limit), after, 1e-9)
}

func TestTheSizeOfProcSelfFDIsTheNumberOfDescriptors(t *testing.T) {
	info, err := os.Stat("/proc/self/fd")
	require.NoError(t, err)
	if info.Size() == 0 {
		t.Skip("a kernel before 6.2")
	}
	require.EqualValues(t, Open(), info.Size())
	openFiles(t, 1000)
	now, err := os.Stat("/proc/self/fd")
	require.NoError(t, err)
	require.EqualValues(t, info.Size()+1000, now.Size())
}

func TestDescriptorsAreCountedWhereTheKernelHasNoSize(t *testing.T) {
	require.Equal(t, Open(), sizeOrOpen("/proc/self"), "a directory of size 0, as that of an older kernel is")
	require.Equal(t, Open(), sizeOrOpen("/proc/self/no such file"))
}

func BenchmarkUsed(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000, 100_000} {
		for name, count := range map[string]func() int{"size": openNow, "names": Open} {
			b.Run(fmt.Sprintf("open=%d/by=%s", n, name), func(b *testing.B) {
				openFiles(b, n)
				b.ReportAllocs()
				for b.Loop() {
					count()
				}
			})
		}
		b.Run(fmt.Sprintf("open=%d/by=used", n), func(b *testing.B) {
			openFiles(b, n)
			b.ReportAllocs()
			for b.Loop() {
				Used()
			}
		})
	}
}
