package timeout

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/internal/groupcommit"
)

// commitTimeout is how long an engine may take for a batch of single calls. Whoever waits for it
// can have given up long before.
const commitTimeout = 30 * time.Second

// commitBy has single calls be made in batches by do.
func commitBy[Q any](c *groupcommit.Committer[Q, Answer], do func(context.Context, []Q) ([]Answer, error)) {
	c.Closed = ErrClosed
	c.Do = func(asks []Q) ([]Answer, error) {
		ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
		defer cancel()
		return do(ctx, asks)
	}
	c.Fail = func(answer Answer, err error) error {
		if err != nil {
			return err
		}
		return answer.Err
	}
}
