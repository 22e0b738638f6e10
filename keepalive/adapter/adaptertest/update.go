package adaptertest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func updateTests() []test {
	return []test{
		{name: "update/longer", of: update, run: func(r *rig) { updatedTimeout(r, timeout, 4*timeout) }},
		{name: "update/shorter", of: update, run: func(r *rig) { updatedTimeout(r, 4*timeout, timeout) }},
		{name: "update/closing", of: half, run: updatedClosing},
	}
}

// Open connections get the new timeout, too.
func updatedTimeout(r *rig, before, after time.Duration) {
	r.serve(keepalive.Config{Timeout: before})
	r.attempt(func() bool {
		c := r.dial()
		cfg := r.k.Config()
		cfg.Timeout = after
		require.NoError(r, r.k.Update(cfg))
		if !c.fresh() {
			cfg.Timeout = before
			require.NoError(r, r.k.Update(cfg))
			return false
		}
		c.requireExpiry(keepalive.ReasonIdle, after)
		return true
	})
}

// Connections opened before are closed by halves after an update.
func updatedClosing(r *rig) {
	r.serve(keepalive.Config{Timeout: eternal})
	c := r.dial()
	cfg := r.k.Config()
	cfg.Closing.Mode, cfg.Closing.Timeout, cfg.Closing.Farewell = keepalive.CloseHalf, eternal, bye
	require.NoError(r, r.k.Update(cfg))
	require.True(r, c.guard.Close(keepalive.ReasonTooMany))
	c.requireBytes("bye too_many\n")
	require.Empty(r, r.endsOf(c.conn))
	require.NoError(r, c.Close())
	c.requireEnd(keepalive.ReasonTooMany)
}
