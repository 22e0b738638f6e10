package timeout

import "context"

// A Handler runs a task that is due. Without an error the task is Done. With one it is tried
// again after Topic.Backoff, or is Dead: at once where the error is Permanent, after the time
// that RetryAfter says, or after Topic.Retries. A panic is an error with the stack.
// ErrAccepted means that the outcome will be told to Center.Feedback, by the token that
// TokenOf has.
//
// The context ends where the lease has been lost: since the task was set or removed
// meanwhile, or the engine could not be reached for as long as the lease; somebody else may
// run the task then, and what the handler returns is not looked at. It ends as well after
// Topic.Timeout, and some time after Run was told to end; context.Cause says which it was.
//
// A handler is called at least once for each task, by several goroutines at the same time,
// and now and then again after a crash: it must be able to stand that. Task.Key with
// Task.Version is the same in all calls for one set.
type Handler func(ctx context.Context, task Task) error
