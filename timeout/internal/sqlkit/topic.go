package sqlkit

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// WriteTopic writes a topic as a column has it.
func WriteTopic(topic timeout.Topic) (string, error) {
	text, err := json.Marshal(topic)
	if err != nil {
		return "", fmt.Errorf("settings of topic %s: %w", topic.Name, err)
	}
	return string(text), nil
}

// ReadTopic reads what WriteTopic has written.
func ReadTopic(text string) (topic timeout.Topic, err error) {
	if err := json.Unmarshal([]byte(text), &topic); err != nil {
		return topic, fmt.Errorf("settings %.100q of a topic: %w", text, err)
	}
	return topic, nil
}

// ChangeTopic returns what a topic becomes that is there, or ErrConflict.
func ChangeTopic(there, topic timeout.Topic) (timeout.Topic, error) {
	topic.Slots = cmp.Or(topic.Slots, there.Slots)
	if topic.Slots < there.Slots {
		return topic, fmt.Errorf("%w: Slots %d of topic %s, must be at least %d, which it has", timeout.ErrConflict, topic.Slots, topic.Name, there.Slots)
	}
	return topic.WithDefaults(), nil
}

// WriteTopics and ReadTopics are for the topics of a node, of which nil means all.
func WriteTopics(topics []string) (string, error) {
	text, err := json.Marshal(topics)
	return string(text), err
}

// ReadTopics reads what WriteTopics has written.
func ReadTopics(text string) (topics []string, err error) {
	if err := json.Unmarshal([]byte(text), &topics); err != nil {
		return nil, fmt.Errorf("topics %.100q of a node: %w", text, err)
	}
	return topics, nil
}
