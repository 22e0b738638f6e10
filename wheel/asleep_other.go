//go:build !linux

package wheel

import "time"

// asleep would return how long the machine has been suspended without the clock
// running.
func asleep() time.Duration { return 0 }
