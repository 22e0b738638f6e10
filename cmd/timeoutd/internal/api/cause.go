package api

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// maxCauses is how many causes one answer has.
const maxCauses = 200

func (h *Handler) listCauses(w http.ResponseWriter, r *http.Request, name string) error {
	groups, other := make(wire.Groups), int64(0)
	next, err := h.eachDead(r, name, func(topic timeout.Topic, tasks []timeout.Task) error {
		for _, task := range tasks {
			why := causeOf(task, topic)
			if _, known := groups[why.ID]; !known && len(groups) == maxCauses {
				other++
				continue
			}
			groups.Add(why)
		}
		return nil
	})
	return answer(w, wire.Causes{Causes: groups.Sorted(), Other: other, Next: next}, err)
}

// causeOf returns the cause of a dead task, with that task alone. Its ID is the same on all nodes for all tasks with
// the same kind of error at the same target. The topic's callback is for tasks without their own.
func causeOf(task timeout.Task, topic timeout.Topic) wire.Cause {
	first, _, _ := strings.Cut(task.Error, "\n") // a panic's stack follows
	failed, target := general(first, 1), targetOf(cmp.Or(task.Callback, topic.Callback))
	id := sha256.Sum256([]byte(target + "\x00" + failed))
	return wire.Cause{
		ID: hex.EncodeToString(id[:8]), Error: failed, Target: target, Tasks: 1,
		Newest: wire.Instant{Time: task.Until}, Sample: wire.Sample{ID: task.ID, Error: task.Error},
	}
}

// targetOf returns the kind of a call and its target, general, or nothing for a handler.
func targetOf(call *timeout.Callback) string {
	if call == nil {
		return ""
	}
	target := general(call.Masked().Target, idDigits)
	if u, err := url.Parse(call.Target); call.Kind == httpcall.Kind && err == nil {
		target = u.Scheme + "://" + u.Host + general(u.Path, idDigits)
	}
	return call.Kind + " " + target
}

// idDigits is how many digits make a part of a target an id. A version, as in /v2/, is none.
const idDigits = 4

// word is a number, a time, an address, an id or a plain word.
var word = regexp.MustCompile(`[\w-]+(?:[:.+][\w-]+)*`)

var (
	status = regexp.MustCompile(`^[1-5]\d\d$`) // looks like that of an answer
	digit  = regexp.MustCompile(`\d`)
)

// general replaces each word with so many digits or more, other than a status: it differs from task to
// task.
func general(text string, digits int) string {
	return word.ReplaceAllStringFunc(text, func(word string) string {
		if len(digit.FindAllString(word, digits)) < digits || status.MatchString(word) {
			return word
		}
		return "…"
	})
}
