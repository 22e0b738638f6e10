// Package timeoutclient is the client of timeoutd, a timeout center served over HTTP. It needs neither
// package timeout nor a driver of an engine.
//
//	client, err := timeoutclient.New("http://127.0.0.1:8077", timeoutclient.Config{Token: token})
//	_, err = client.Set(ctx, engine.Task{Topic: "orders", ID: "4711", After: 15 * time.Minute})
//	_, err = client.Remove(ctx, engine.Key{Topic: "orders", ID: "4711"})
//
// Tasks, topics and keys are those of package engine. The methods have the names and the meaning of
// those of timeout.Center.
//
// # Errors
//
// An error of the server is an [*Error]: its text is the server's, and it has the HTTP status.
// errors.Is matches it with engine.ErrNotFound, ErrArgument, ErrConflict, ErrChanged, ErrFull, ErrForged,
// ErrUnsupported and ErrClosed. Calls for many tasks return an error if nothing is known about them.
// Otherwise each answer has its own Err.
//
// # Work
//
// [Client.Work] does the due tasks of a topic with engine.Topic.Pull. It is made of Pull, Extend and
// Feedback.
//
// # Repeating a call
//
// The client repeats nothing by itself. Every call can be repeated after an error: setting, moving,
// removing or replaying a task twice leaves it as once, apart from a set's new version and the time
// of an After, which counts from the last call. So use Due, and a context with a deadline, to repeat
// a set. The statuses 502, 503 and 504, and errors without a status, may be gone a second later. An
// outcome told twice by Feedback counts once.
package timeoutclient
