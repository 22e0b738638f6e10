package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

func (h *Handler) listTopics(w http.ResponseWriter, r *http.Request) error {
	all, err := h.center.Topics(r.Context())
	return answer(w, wire.Topics{Topics: wire.Each(all, h.topicFor(r))}, err)
}

// topicFor returns wire.TopicOf for the sender of a request: whoever can't change topics sees no secrets of callbacks.
func (h *Handler) topicFor(r *http.Request) func(timeout.Topic) wire.Topic {
	if h.access.may(r, Admin) {
		return wire.TopicOf
	}
	return maskedTopic
}

func maskedTopic(topic timeout.Topic) wire.Topic {
	topic.Callback = masked(topic.Callback)
	return wire.TopicOf(topic)
}

// masked returns the callback of a topic or a task without its secrets. Nil stays nil.
func masked(call *timeout.Callback) *timeout.Callback {
	if call == nil {
		return nil
	}
	hidden := call.Masked()
	return &hidden
}

func (h *Handler) getTopic(w http.ResponseWriter, r *http.Request, name string) error {
	topic, err := h.center.Topic(r.Context(), name)
	if err != nil {
		return err
	}
	counts, err := h.center.Count(r.Context(), name)
	if err != nil {
		return err
	}
	told := wire.TopicCounts{Topic: h.topicFor(r)(topic), Counts: wire.CountsOf(counts)}
	w.Header().Set("ETag", told.ETag())
	return answer(w, told, nil)
}

// ofTopic returns the handler of a route with the name of a topic in its path.
func ofTopic(serve func(w http.ResponseWriter, r *http.Request, topic string) error) serving {
	return func(w http.ResponseWriter, r *http.Request) error {
		name := r.PathValue("topic")
		if err := engine.CheckTopic(name); err != nil {
			return err
		}
		return serve(w, r, name)
	}
}

// changeTopic returns the handler of a PUT or a PATCH. A PUT makes or changes a topic: a missing field becomes the default,
// except the number of slots and the pause, which stay. A PATCH changes what is said of a topic, and a field that is null
// becomes the default.
func (h *Handler) changeTopic(patch bool) func(http.ResponseWriter, *http.Request, string) error {
	return func(w http.ResponseWriter, r *http.Request, name string) error {
		said := topicBody{patch: patch}
		if err := h.decode(w, r, &said); err != nil {
			return err
		}
		change, err := h.change(r, name, func(has timeout.Topic) (timeout.Topic, error) { return said.over(name, has) })
		if err != nil && change.Topic.Name != "" {
			err = partly{fmt.Sprintf("topic %s is changed, and %d of its waiting tasks have another time", name, change.Rescheduled), err}
		}
		if err != nil {
			return err
		}
		told := wire.TopicChange{Topic: wire.TopicOf(change.Topic), Rescheduled: change.Rescheduled}
		if lost := said.lost(wire.TopicOf(change.Was), told.Topic); !patch && len(lost) > 0 {
			told.Hint = strings.Join(lost, ", ") + " had another value, and a PUT without them sets the default: PATCH changes only what it names"
		}
		w.Header().Set("ETag", told.ETag())
		return answerAs(w, http.StatusOK, told)
	}
}

// changeTries is how often a change of a topic is tried while others change it.
const changeTries = 100

// change changes a topic on the conditions of a request. The function gets the topic as it is, without a name if there is none,
// and returns it as it is to be. It is called again if somebody else has changed the topic in between: no change is lost.
func (h *Handler) change(r *http.Request, name string, to func(has timeout.Topic) (timeout.Topic, error)) (change timeout.TopicChange, err error) {
	defer h.stats.forget()
	for range changeTries {
		has, err := h.center.Topic(r.Context(), name)
		if err != nil && !errors.Is(err, timeout.ErrNotFound) {
			return change, err
		}
		if err := checkMatch(r, name, has); err != nil {
			return change, err
		}
		topic, err := to(has)
		if err != nil {
			return change, err
		}
		if change, err = h.center.ChangeTopicIf(r.Context(), has, topic); !errors.Is(err, timeout.ErrChanged) {
			return change, err
		}
	}
	return change, fmt.Errorf("%w: topic %s was changed by others in each of %d tries", timeout.ErrChanged, name, changeTries)
}

// checkMatch returns an error if a topic is not as If-Match and If-None-Match of a request say. Without a name there is none.
func checkMatch(r *http.Request, name string, has timeout.Topic) error {
	onlyNew, err := ifNoneMatch(r)
	if err != nil {
		return err
	}
	if onlyNew && has.Name != "" {
		return fmt.Errorf("%w: topic %s is there, and If-None-Match is *", timeout.ErrChanged, name)
	}
	if !hasHeader(r, "If-Match") {
		return nil
	}
	tags, tag := strings.Join(r.Header.Values("If-Match"), ","), wire.TopicOf(has).ETag()
	for one := range strings.SplitSeq(tags, ",") {
		switch one = strings.TrimSpace(one); {
		case one == "*" && has.Name != "", one == tag && has.Name != "":
			return nil
		case one != "*" && !entityTag.MatchString(one):
			return fmt.Errorf("%w: If-Match %.*q, must be * or the ETag of a topic, with its quotes", timeout.ErrArgument, maxShown, tags)
		}
	}
	return fmt.Errorf("%w: topic %s is not as it was with %.*q: read it again", timeout.ErrChanged, name, maxShown, tags)
}

// hasHeader reports whether a request has a header, perhaps an empty one, as of a variable that is not set.
func hasHeader(r *http.Request, name string) bool { return len(r.Header.Values(name)) > 0 }

var entityTag = regexp.MustCompile(`^(W/)?"[^"]*"$`)

// topicBody is the body of a PUT or a PATCH.
type topicBody struct {
	wire.Topic
	names map[string]json.RawMessage // the fields of the body
	patch bool                       // they may be null
}

// UnmarshalJSON reads the fields. As when other JSON is read, the case of their names makes no difference.
func (b *topicBody) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&b.Topic); err != nil {
		return err
	}
	return json.Unmarshal(text, &b.names)
}

// says reports whether the body has a field, and returns its value.
func (b *topicBody) says(field string) (value json.RawMessage, said bool) {
	for name, value := range b.names {
		if strings.EqualFold(name, field) {
			return value, true
		}
	}
	return nil, false
}

// unsaid goes through the fields missing in the body: their names, and their places in the type.
func (b *topicBody) unsaid(yield func(string, int) bool) {
	for i, field := range reflect.VisibleFields(reflect.TypeFor[wire.Topic]()) {
		if _, said := b.says(jsonName(field)); !said && !yield(jsonName(field), i) {
			return
		}
	}
}

// over returns what the body makes of a topic, which has no name if there is none. Neither a PUT nor a PATCH changes the pause, and
// another one than the topic's is refused: a caller could take a running topic for a paused one.
func (b topicBody) over(name string, has timeout.Topic) (timeout.Topic, error) {
	there := has.Name != ""
	switch {
	case b.Name != "" && b.Name != name:
		return has, fmt.Errorf("%w: name %.*q in the body, must be that of the path, %q, or not there", timeout.ErrArgument, maxShown, b.Name, name)
	case b.patch && !there:
		return has, fmt.Errorf("%w: topic %q", timeout.ErrNotFound, name)
	case there && b.sets("paused") && b.Paused != has.Paused:
		return has, fmt.Errorf("%w: paused %t of topic %s, which is there with %t: pause and resume change that", timeout.ErrConflict, b.Paused, name, has.Paused)
	case there && b.sets("paused_until") && !b.PausedUntil.Equal(has.PausedUntil):
		return has, fmt.Errorf("%w: paused_until %v of topic %s, which is there with %v: pause and resume change that", timeout.ErrConflict, b.PausedUntil.Time, name, has.PausedUntil)
	}
	if b.patch {
		b.fill(wire.TopicOf(has))
	}
	topic := b.Read()
	topic.Name = name
	if there {
		topic.Paused, topic.PausedUntil = has.Paused, has.PausedUntil
	}
	return topic, nil
}

// sets reports whether the body has a field that is not null.
func (b *topicBody) sets(field string) bool {
	value, said := b.says(field)
	return said && string(value) != "null"
}

// fill sets the missing fields to the settings of the topic.
func (b *topicBody) fill(has wire.Topic) {
	for _, i := range b.unsaid {
		reflect.ValueOf(&b.Topic).Elem().Field(i).Set(reflect.ValueOf(has).Field(i))
	}
}

// lost returns the names of the missing fields whose setting has changed.
func (b *topicBody) lost(was, now wire.Topic) (names []string) {
	for name, i := range b.unsaid {
		before, after := reflect.ValueOf(was).Field(i), reflect.ValueOf(now).Field(i)
		if !before.IsZero() && !reflect.DeepEqual(before.Interface(), after.Interface()) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (h *Handler) dropTopic(w http.ResponseWriter, r *http.Request, name string) error {
	if tags := r.Header.Values("If-Match"); len(tags) > 0 {
		return fmt.Errorf("%w: If-Match %.*q of a DELETE, must not be there: the tasks that would go are not compared", timeout.ErrArgument, maxShown, tags)
	}
	if err := h.center.DropTopic(r.Context(), name); err != nil {
		return err
	}
	h.stats.forget()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// pause returns the handler of pause or resume.
func (h *Handler) pause(paused bool) func(http.ResponseWriter, *http.Request, string) error {
	return func(w http.ResponseWriter, r *http.Request, name string) error {
		var pause wire.Pause
		if hasBody(r) {
			if err := h.decode(w, r, &pause); err != nil {
				return err
			}
		}
		var now time.Time
		if pause.For != nil {
			var err error
			if now, err = h.center.Now(r.Context()); err != nil {
				return err
			}
		}
		until, err := pause.End(now)
		if err != nil {
			return err
		}
		topic, err := h.setPause(r, name, paused, until)
		if err != nil {
			return err
		}
		told := wire.TopicOf(topic)
		w.Header().Set("ETag", told.ETag())
		return answer(w, told, nil)
	}
}

// setPause pauses or resumes a topic. Without a condition it can be one that this node could not make.
func (h *Handler) setPause(r *http.Request, name string, paused bool, until time.Time) (topic timeout.Topic, err error) {
	ctx := r.Context()
	switch {
	case hasHeader(r, "If-Match"), hasHeader(r, "If-None-Match"):
		change, err := h.change(r, name, func(has timeout.Topic) (timeout.Topic, error) {
			if has.Name == "" {
				return has, fmt.Errorf("%w: topic %q", timeout.ErrNotFound, name)
			}
			has.Paused, has.PausedUntil = paused, until
			return has, nil
		})
		return change.Topic, err
	case !paused:
		err = h.center.Resume(ctx, name)
	case until.IsZero():
		err = h.center.Pause(ctx, name)
	default:
		err = h.center.PauseUntil(ctx, name, until)
	}
	if err != nil {
		return topic, err
	}
	h.stats.forget()
	return h.center.Topic(ctx, name)
}
