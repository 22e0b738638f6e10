package redis

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/origin"
)

// A body in Redis is version (7 bytes), a byte for its kind, an origin as JSON after its length if there
// is one, and the payload. The JSON begins with white space, for a mark: see mark in head.lua.
const (
	plain      = 0
	withOrigin = 1
	moved      = 2 // plain, with a mark
)

// bodyOf is the body of a task without the version. Redis gives that.
func bodyOf(task *engine.Task) string {
	from := origin.Of(task)
	head := []byte{plain}
	if from != "" {
		head = append(binary.AppendUvarint([]byte{withOrigin}, uint64(1+len(from))), ' ')
	}
	var body strings.Builder
	body.Grow(len(head) + len(from) + len(task.Payload))
	body.Write(head)
	body.WriteString(from)
	body.Write(task.Payload)
	return body.String()
}

// historySize is the size of a history at the end of a record: see head.lua.
const historySize = 6 + 4 + 4 + 1

// oldest is the first time that a version can stand for, in ms: 2001. Earlier ones are mere numbers.
const oldest = 1e12

// complete fills in a task with its state from a body, as Redis returns it, a record of attempts, perhaps
// empty, and the score.
func complete(task *engine.Task, body, record, score string) error {
	calls, failures, err := fill(task, body, record, score)
	task.Count(calls, failures)
	return err
}

// fill is complete without Calls and Failures. It returns those of earlier runs.
func fill(task *engine.Task, body, record, score string) (calls, failures int, err error) {
	if len(body) < 8 {
		return 0, 0, fmt.Errorf("timeout/redis: body of %v has %d bytes, must have at least 8", task.Key(), len(body))
	}
	task.Version = number7(body)
	payload := body[8:]
	if body[7] == withOrigin {
		size, head := binary.Uvarint([]byte(payload[:min(len(payload), binary.MaxVarintLen64)]))
		if head <= 0 || size > uint64(len(payload)-head) {
			return 0, 0, fmt.Errorf("timeout/redis: callback of %v is cut off", task.Key())
		}
		if err := origin.Read([]byte(payload[head:head+int(size)]), task); err != nil {
			return 0, 0, fmt.Errorf("timeout/redis: %w", err)
		}
		payload = payload[head+int(size):]
	}
	if payload != "" {
		task.Payload = []byte(payload)
	}
	until, err := strconv.ParseInt(score, 10, 64)
	if err != nil && score != "" {
		return 0, 0, fmt.Errorf("timeout/redis: time of %v: %w", task.Key(), err)
	}
	task.Until = time.UnixMilli(until)
	task.Due = task.Until
	created := int64(0)
	if len(record) >= 22 && len(record) >= 22+int(record[21]) {
		task.Attempts = int(number(record[7:11]))
		task.Due = time.UnixMilli(number(record[11:17]))
		task.Node, task.Error = record[22:22+int(record[21])], record[22+int(record[21]):]
		if n := len(task.Error) - historySize; n >= 0 && task.Error[n+historySize-1] == 0xff {
			past := task.Error[n:]
			created, calls, failures = number(past[:6]), int(number(past[6:10])), int(number(past[10:14]))
			task.Error = task.Error[:n]
		}
	}
	if created == 0 {
		created = (task.Version - 1) / 1000 // the version of a set is by the server's clock, in µs
	}
	if created >= oldest {
		task.Created = time.UnixMilli(created)
	}
	return calls, failures, nil
}

// number7 reads the version of a body, or the lease of a record.
func number7(text string) int64 { return number(text[:7]) }

func number(text string) int64 {
	var n int64
	for i := range len(text) {
		n = n<<8 | int64(text[i])
	}
	return n
}

// ask is an action time as the scripts read it: milliseconds since the epoch, or from now if
// less than zero.
func ask(due time.Time, after time.Duration) int64 {
	if due.IsZero() {
		return -engine.CeilMillis(after) - 1
	}
	return engine.Millis(due)
}
