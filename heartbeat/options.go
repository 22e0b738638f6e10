package heartbeat

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// longest bounds durations: sums and products of them can't overflow.
const longest = 10 * 365 * 24 * time.Hour

// leastTicks is how many ticks a server's timeout must have at least: an interval is
// up to two ticks longer than it says, and there must be room for a beat to arrive.
const leastTicks = 10

// Answer says what of the server's counts as an answer to a beat.
type Answer int

const (
	// AnswerNone means no answers. Then nobody finds out whether the server still listens.
	// Only its socket must take the beats.
	AnswerNone Answer = iota

	// AnswerRead takes any byte read from the [Conn] for an answer: it is a sign of life.
	// Somebody must be reading, all the time.
	AnswerRead

	// AnswerAck takes only [Conn.Ack] for an answer.
	AnswerAck
)

var answerNames = [...]string{"none", "read", "ack"}

func (a Answer) String() string {
	if a < 0 || int(a) >= len(answerNames) {
		return fmt.Sprintf("Answer(%d)", int(a))
	}
	return answerNames[a]
}

// Options are about the beats of one connection. Timeout or Interval must be given,
// and Message or Beat.
type Options struct {
	// Timeout is the server's: how long it lets a client be silent. Zero means three
	// times Interval. It must be at least ten ticks of the Beater.
	Timeout time.Duration

	// Interval is the client's longest silence: a beat is sent so long after the last write.
	// It must be at least a tick, and at most three quarters of Timeout, or a beat has no time
	// to arrive. Zero means a third of Timeout, or up to a quarter less: each connection draws
	// its own interval once, since clients may fall silent together, and should not beat
	// together.
	Interval time.Duration

	// Message is a beat. It is written by a single Write.
	Message []byte

	// Beat, if not nil, sends a beat, instead of Message: by writing to conn, the *Conn, or
	// otherwise. It is called on a goroutine of the Beater's, never twice at the same time for
	// the same connection. If a message of yours takes several writes, Beat must wait for the
	// last one, by a lock of yours. If it returns an error, or panics, the connection is
	// closed. It may block and holds up nobody else. The connection is closed if Beat takes
	// longer than AckTimeout, or than Timeout if the server is heard meanwhile. On Linux both
	// begin anew while the server goes on acknowledging bytes of a running Write.
	Beat func(conn net.Conn) error

	// Answer is what counts as an answer. The zero value is AnswerNone.
	Answer Answer

	// AckTimeout is how long an answer may take, from the moment its beat begins to be written. Then the
	// connection is closed, see ErrNoAnswer. If earlier bytes of yours are still on their way, a
	// slow server takes them first: on Linux, with TCP, AckTimeout begins anew as long as it goes
	// on acknowledging them. Elsewhere they take some of it. It must be at least a tick and at
	// most Interval. Zero means Interval. Without answers it must be zero, and a beat may take
	// Timeout to be written.
	AckTimeout time.Duration

	// OnRoundTrip gets the time from a beat to its answer. [Conn.Ack] calls it. Nil means
	// nobody.
	OnRoundTrip func(conn net.Conn, d time.Duration)
}

// withDefaults returns the options with their defaults, or an error with the values and their
// limit. delay is the connection's own interval.
func (o Options) withDefaults(tick time.Duration) (_ Options, delay time.Duration, err error) {
	if err := o.checkBeat(); err != nil {
		return o, 0, err
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{
		{"Timeout", o.Timeout},
		{"Interval", o.Interval},
		{"AckTimeout", o.AckTimeout},
	} {
		if field.value < 0 || field.value > longest {
			return o, 0, fmt.Errorf("%w: %s %v, must be 0 to %v", ErrArgument, field.name, field.value, longest)
		}
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * o.Interval
	}
	if o.Timeout < leastTicks*tick {
		return o, 0, fmt.Errorf("%w: Timeout %v (Interval %v), must be at least %d ticks of %v",
			ErrArgument, o.Timeout, o.Interval, leastTicks, tick)
	}
	delay = o.Interval
	if o.Interval == 0 {
		o.Interval = o.Timeout / 3
		delay = o.Interval - rand.N(o.Interval/4+1)
	}
	if o.Interval < tick || o.Interval > o.mostInterval() {
		return o, 0, fmt.Errorf("%w: Interval %v, must be at least a tick, %v, and at most three quarters of Timeout %v",
			ErrArgument, o.Interval, tick, o.Timeout)
	}
	return o.withAckTimeout(delay, tick)
}

func (o Options) withAckTimeout(delay, tick time.Duration) (Options, time.Duration, error) {
	switch {
	case o.Answer < AnswerNone || o.Answer > AnswerAck:
		return o, 0, fmt.Errorf("%w: Answer %d, must be %d to %d", ErrArgument, o.Answer, AnswerNone, AnswerAck)
	case o.Answer == AnswerNone && o.AckTimeout > 0:
		return o, 0, fmt.Errorf("%w: AckTimeout %v with Answer %v", ErrArgument, o.AckTimeout, o.Answer)
	case o.Answer == AnswerNone:
		o.AckTimeout = o.Timeout
	case o.AckTimeout == 0:
		o.AckTimeout = o.Interval
	case o.AckTimeout < tick || o.AckTimeout > o.Interval:
		return o, 0, fmt.Errorf("%w: AckTimeout %v, must be at least a tick, %v, and at most Interval %v",
			ErrArgument, o.AckTimeout, tick, o.Interval)
	}
	return o, delay, nil
}

func (o *Options) checkBeat() error {
	switch {
	case len(o.Message) == 0 && o.Beat == nil:
		return fmt.Errorf("%w: neither Message nor Beat", ErrArgument)
	case len(o.Message) > 0 && o.Beat != nil:
		return fmt.Errorf("%w: Message %.20q and Beat, must be one of them", ErrArgument, o.Message)
	}
	if o.Beat == nil {
		message := bytes.Clone(o.Message)
		o.Beat = func(conn net.Conn) error {
			_, err := conn.Write(message)
			return err
		}
	}
	return nil
}

// mostInterval is the longest interval with time left for a beat to arrive.
func (o Options) mostInterval() time.Duration { return o.Timeout - o.Timeout/4 }
