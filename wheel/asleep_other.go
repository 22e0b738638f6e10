//go:build !linux

package wheel

import "time"

// asleep would return how long the machine has been suspended with its clock stopped.
func asleep() time.Duration { return 0 }
