package callback

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The headers of a call, over HTTP and NATS. Those of the task begin with Prefix. Those of its Trace
// have the names that they have there: traceparent, tracestate, baggage.
const (
	// HeaderKey is the header for Message.Key, from the IETF's draft
	// draft-ietf-httpapi-idempotency-key-header.
	HeaderKey = "Idempotency-Key"

	Prefix        = "Heartwheel-"
	HeaderTopic   = Prefix + "Topic"
	HeaderID      = Prefix + "Id"      // escaped: see Escape
	HeaderVersion = Prefix + "Version" // decimal
	HeaderAttempt = Prefix + "Attempt" // decimal, 1 for the first
	HeaderDue     = Prefix + "Due"     // milliseconds since the epoch
	HeaderToken   = Prefix + "Token"   // as timeout.ParseToken reads it
)

// Message holds the facts about a task in a call, beside the payload.
type Message struct {
	// Key is the same for all attempts of one set, and for nothing else. A target that has done
	// the work of a key need not do it again. See Key.
	Key string

	Topic   string
	ID      string
	Version int64
	Attempt int
	Due     time.Time // the action time, in milliseconds

	// Trace is that of the task. Nil means none.
	Trace map[string]string

	// Token proves the lease. With it the result can be fed back. The zero Token means none.
	Token timeout.Token
}

// New returns the message of a task, with the token in ctx.
func New(ctx context.Context, task timeout.Task) Message {
	token, _ := timeout.TokenOf(ctx)
	return Message{
		Key:   Key(task),
		Topic: task.Topic, ID: task.ID, Version: task.Version,
		Attempt: task.Attempts, Due: task.Due, Trace: task.Trace, Token: token,
	}
}

// Key returns the idempotency key of a task: its topic, a slash, its id, a colon and its
// version, as in "orders/4711:12". Topic and id are escaped, see Escape. All attempts of one
// set have the same key; setting, moving or replaying the task changes it.
func Key(task timeout.Task) string {
	return Escape(task.Topic) + "/" + Escape(task.ID) + ":" + strconv.FormatInt(task.Version, 10)
}

// Field is a name and a value.
type Field struct{ Name, Value string }

// Headers returns the message as headers, always in the same order and each name once. Without
// a Token its header is missing, and so is what is not in the Trace.
func (m Message) Headers() []Field {
	fields := []Field{
		{HeaderKey, m.Key},
		{HeaderTopic, m.Topic},
		{HeaderID, Escape(m.ID)},
		{HeaderVersion, strconv.FormatInt(m.Version, 10)},
		{HeaderAttempt, strconv.Itoa(m.Attempt)},
		{HeaderDue, strconv.FormatInt(engine.Millis(m.Due), 10)},
	}
	if m.Token != (timeout.Token{}) {
		fields = append(fields, Field{HeaderToken, m.Token.String()})
	}
	for _, name := range traceNames {
		if value := m.Trace[name]; value != "" {
			fields = append(fields, Field{name, value})
		}
	}
	return fields
}

var traceNames = []string{engine.Traceparent, engine.Tracestate, engine.Baggage}

// Parse reads the headers returned by Headers, with the method Get of an http.Header or a
// nats.Header. Without a valid Trace it is nil: programs on the way may have changed it. The error
// wraps timeout.ErrArgument and names the header. Headers that don't belong together are an error.
func Parse(get func(name string) string) (Message, error) {
	m := Message{Key: get(HeaderKey), Topic: get(HeaderTopic)}
	var err error
	id := get(HeaderID)
	if m.ID, err = url.PathUnescape(id); err != nil {
		return Message{}, fmt.Errorf("header %s: %w: %.50q: %w", HeaderID, timeout.ErrArgument, id, err)
	}
	if err := (timeout.Key{Topic: m.Topic, ID: m.ID}).Check(); err != nil {
		return Message{}, fmt.Errorf("headers %s and %s: %w", HeaderTopic, HeaderID, err)
	}
	attempt, due := int64(0), int64(0)
	for _, number := range []struct {
		name string
		into *int64
		bits int
	}{{HeaderVersion, &m.Version, 64}, {HeaderAttempt, &attempt, 32}, {HeaderDue, &due, 64}} {
		text := get(number.name)
		if *number.into, err = strconv.ParseInt(text, 10, number.bits); err != nil {
			return Message{}, fmt.Errorf("%w: header %s %.50q, must be a number", timeout.ErrArgument, number.name, text)
		}
	}
	m.Attempt, m.Due = int(attempt), time.UnixMilli(due)
	if key := Key(timeout.Task{Topic: m.Topic, ID: m.ID, Version: m.Version}); m.Key != key {
		return Message{}, fmt.Errorf("%w: header %s %.100q, must be %.100q, of the other headers", timeout.ErrArgument, HeaderKey, m.Key, key)
	}
	if text := get(HeaderToken); text != "" {
		if m.Token, err = timeout.ParseToken(text); err != nil {
			return Message{}, fmt.Errorf("header %s: %w", HeaderToken, err)
		}
	}
	trace := make(map[string]string)
	for _, name := range traceNames {
		if value := get(name); value != "" {
			trace[name] = value
		}
	}
	if len(trace) > 0 && engine.CheckTrace(trace) == nil {
		m.Trace = trace
	}
	return m, nil
}

// escaper turns what url.QueryEscape returns into text for a header. A full stop is not left: it ends the
// key in the signed text of HTTP.
var escaper = strings.NewReplacer("+", "%20", ".", "%2E")

// Escape writes each byte of an id other than a letter, a digit and -_~ as a percent sign and
// two hexadecimal digits, as in URLs. So any id can stand in a header and between other texts,
// and every decoder of URL paths reads it.
func Escape(id string) string { return escaper.Replace(url.QueryEscape(id)) }
