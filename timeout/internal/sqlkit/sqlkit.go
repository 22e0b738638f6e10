// Package sqlkit has what the engines on SQL databases have in common.
package sqlkit

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	// Batch is how many tasks one transaction changes at most.
	Batch = 512

	// PageBytes is how many bytes of payloads are read at a time, but for a single task that
	// has more.
	PageBytes = 4 << 20

	// MaxDue is the latest action time, in milliseconds since the epoch: the end of the year
	// 9999.
	MaxDue = 253402300799999

	// LeaseEnded is the error of an attempt whose lease ended before it did.
	LeaseEnded = "the lease of the attempt has ended"
)

// When writes an action time as one number: one that is not negative is milliseconds since
// the epoch, and another one stands for -1-n milliseconds from now.
func When(due time.Time, after time.Duration) int64 {
	if !due.IsZero() {
		return timeout.Millis(due)
	}
	return -1 - min(max(timeout.CeilMillis(after), 0), MaxDue)
}

// At returns the action time that When has written.
func At(when, now int64) int64 {
	if when >= 0 {
		return when
	}
	return min(now-1-when, MaxDue)
}

// HashBits is how many values Hash has: as many as there can be slots.
const HashBits = timeout.MaxSlots - 1

// Hash returns that part of timeout.Hash of which slots are made. A task keeps it, so that
// its slot can be had by the database where a topic has grown.
func Hash(id string) int64 { return int64(timeout.Hash(id) & HashBits) }

// Time returns a time of milliseconds since the epoch.
func Time(ms int64) time.Time { return time.UnixMilli(ms) }

// Live reports whether IfAbsent finds a task of that state to be there.
func Live(s timeout.State) bool {
	return s == timeout.Pending || s == timeout.Running || s == timeout.Dead
}

// WriteCallback writes a callback as a column has it: empty for none.
func WriteCallback(call *timeout.Callback) (string, error) {
	if call == nil {
		return "", nil
	}
	text, err := json.Marshal(call)
	return string(text), err
}

// ReadCallback reads what WriteCallback has written.
func ReadCallback(text string) (*timeout.Callback, error) {
	if text == "" {
		return nil, nil
	}
	call := new(timeout.Callback)
	if err := json.Unmarshal([]byte(text), call); err != nil {
		return nil, fmt.Errorf("callback %.100q of a task: %w", text, err)
	}
	return call, nil
}

// Clip cuts a text to the bytes that a column of a task should have at most, between
// characters.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return text[:end]
}

// ByTopic deals indexes of a batch over topics and rounds: a key is in each round at most
// once, and rounds are done one after the other. So the last of those with the same key stays.
func ByTopic(n int, key func(int) timeout.Key) []Group {
	var groups []Group
	type place struct {
		topic string
		round int
	}
	at := make(map[place]int)
	seen := make(map[timeout.Key]int, n)
	for i := range n {
		k := key(i)
		where := place{k.Topic, seen[k]}
		seen[k]++
		g, known := at[where]
		if known && len(groups[g].Index) == Batch {
			known = false
		}
		if !known {
			g = len(groups)
			at[where] = g
			groups = append(groups, Group{Topic: k.Topic})
		}
		groups[g].Index = append(groups[g].Index, i)
	}
	return groups
}

// Group is a part of a batch, of one topic, with no key twice and of bounded size.
type Group struct {
	Topic string
	Index []int
}

// IDs returns the ids of a group and where each of them is in the batch.
func (g Group) IDs(key func(int) timeout.Key) ([]string, map[string]int) {
	ids := make([]string, len(g.Index))
	where := make(map[string]int, len(g.Index))
	for j, i := range g.Index {
		ids[j] = key(i).ID
		where[ids[j]] = i
	}
	return ids, where
}

// NoTopic is ErrNotFound of a topic.
func NoTopic(name string) error { return fmt.Errorf("%w: topic %q", timeout.ErrNotFound, name) }

// Slots returns the slots of an Ask that there are, in order and each once.
func Slots(asked []int, slots int) []int {
	there := make([]bool, slots)
	for _, s := range asked {
		if s >= 0 && s < slots {
			there[s] = true
		}
	}
	list := []int{}
	for s := range there {
		if there[s] || asked == nil {
			list = append(list, s)
		}
	}
	return list
}

// NoTime is the zero time.
var NoTime time.Time

// Started is when an attempt has begun, in milliseconds: zero where nobody has said it.
func Started(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
