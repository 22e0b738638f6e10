package redis

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// A body in Redis is version (7 bytes), a byte for its kind, the callback as JSON after its length
// if there is one, and the payload.
const (
	plain        = 0
	withCallback = 1
)

// bodyOf is the body of a task without the version. Redis gives that.
func bodyOf(task engine.Task) (string, error) {
	if task.Callback == nil {
		body := make([]byte, 1+len(task.Payload))
		copy(body[1:], task.Payload)
		return string(body), nil
	}
	callback, err := json.Marshal(task.Callback)
	if err != nil {
		return "", fmt.Errorf("timeout/redis: callback of %v: %w", task.Key(), err)
	}
	body := binary.AppendUvarint([]byte{withCallback}, uint64(len(callback)))
	return string(append(append(body, callback...), task.Payload...)), nil
}

// fill completes a task from a body, as Redis returns it, a record of attempts, perhaps empty, and
// the score.
func fill(task *engine.Task, body, record, score string) error {
	if len(body) < 8 {
		return fmt.Errorf("timeout/redis: body of %v has %d bytes, must have at least 8", task.Key(), len(body))
	}
	task.Version = number7(body)
	payload := body[8:]
	if body[7] == withCallback {
		size, head := binary.Uvarint([]byte(payload[:min(len(payload), binary.MaxVarintLen64)]))
		if head <= 0 || size > uint64(len(payload)-head) {
			return fmt.Errorf("timeout/redis: callback of %v is cut off", task.Key())
		}
		task.Callback = new(engine.Callback)
		if err := json.Unmarshal([]byte(payload[head:head+int(size)]), task.Callback); err != nil {
			return fmt.Errorf("timeout/redis: callback of %v: %w", task.Key(), err)
		}
		payload = payload[head+int(size):]
	}
	if payload != "" {
		task.Payload = []byte(payload)
	}
	until, err := strconv.ParseInt(score, 10, 64)
	if err != nil && score != "" {
		return fmt.Errorf("timeout/redis: time of %v: %w", task.Key(), err)
	}
	task.Until = time.UnixMilli(until)
	task.Due = task.Until
	if len(record) >= 22 && len(record) >= 22+int(record[21]) {
		task.Attempts = int(number(record[7:11]))
		task.Due = time.UnixMilli(number(record[11:17]))
		task.Node = record[22 : 22+int(record[21])]
		task.Error = record[22+int(record[21]):]
	}
	return nil
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
