package enginetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testExpiredAmongOthers has leases expire, beside waiting ones with and without a failed
// attempt. A call leases fewer than are due.
func testExpiredAmongOthers(r *rig) {
	r.make(engine.Topic{Slots: 1})
	for _, size := range []int{1, engine.MaxPayload} {
		const each = 4
		set := func(name string) {
			for i := range each {
				task := r.task(fmt.Sprint(name, size, "-", i), past)
				task.Payload = make([]byte, size)
				r.setAll(task)
			}
		}
		leases := func() (tokens []engine.Token) {
			for _, leased := range r.lease(each, long) {
				tokens = append(tokens, leased.Token)
			}
			return tokens
		}
		set("failed")
		for _, token := range leases() {
			r.settle(engine.Outcome{Token: token, As: engine.Pending, After: long, Error: "failed"})
		}
		set("lost")
		lost := leases()
		set("new")
		for i := range each {
			r.move(fmt.Sprint("failed", size, "-", i), past)
		}
		r.extend(short, lost...)
		time.Sleep(2 * short)

		got, want := map[string][]any{}, map[string][]any{}
		r.eventually("all are leased", func() bool { // a busy engine may be late
			for _, leased := range r.leaseBatch(engine.Ask{Max: each + 1}).Leased {
				require.NotContains(r.t, got, leased.ID)
				require.Len(r.t, leased.Payload, size)
				got[leased.ID] = []any{leased.Attempts, leased.Failures, leased.Again}
			}
			return len(got) == 3*each
		})
		for i := range each {
			for name, of := range map[string][]any{"failed": {2, 1, false}, "lost": {2, 1, true}, "new": {1, 0, false}} {
				want[fmt.Sprint(name, size, "-", i)] = of
			}
		}
		require.Equal(r.t, want, got, "attempts, failures, and whether a lease was lost")
	}
}
