package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// eventLog is a gateway's stdout, one JSON object a line. Its times are of the reading of a line, by the
// clock of this program: they are late rather than early.
type eventLog struct {
	mu      sync.Mutex
	online  []sessionEvent
	offline []sessionEvent
	stats   []nodeStats
	strange int // lines without meaning
	example string
}

// sessionEvent is an online or offline event.
type sessionEvent struct {
	sessionEpoch
	reason string // of the end
	at     time.Time
}

// nodeStats is a stats event.
type nodeStats struct {
	at                                                             time.Time
	Sessions, Renewals, Refused, Moved, Lost, Told, Held, Failures int64
}

// line takes in a line.
func (l *eventLog) line(b []byte) {
	at := time.Now()
	var said struct {
		Event, Session, Reason string
		Epoch                  int64
		nodeStats
	}
	err := json.Unmarshal(b, &said)
	l.mu.Lock()
	defer l.mu.Unlock()
	session := -1
	if err == nil && said.Session != "" {
		session, err = sessionNumber(said.Session)
	}
	who := sessionEpoch{int32(session), said.Epoch}
	switch {
	case err != nil || session < 0 && said.Event != "stats":
		l.strange++
		if l.example == "" {
			l.example = fmt.Sprintf("%.200q", b)
		}
	case said.Event == "online":
		l.online = append(l.online, sessionEvent{sessionEpoch: who, at: at})
	case said.Event == "offline":
		l.offline = append(l.offline, sessionEvent{who, said.Reason, at})
	case said.Event == "stats":
		said.at = at
		l.stats = append(l.stats, said.nodeStats)
	}
}

// statsBetween returns the last stats until one moment, and until another.
func (l *eventLog) statsBetween(from, to time.Time) (first, last nodeStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.stats {
		if !s.at.After(from) || first.at.IsZero() {
			first = s
		}
		if !s.at.After(to) {
			last = s
		}
	}
	return first, last
}

// nonsense returns the number of lines without meaning, and one of them.
func (l *eventLog) nonsense() (lines int, example string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.strange, l.example
}

// total returns the last stats.
func (l *eventLog) total() nodeStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.stats) == 0 {
		return nodeStats{}
	}
	return l.stats[len(l.stats)-1]
}

const sessionPrefix = "s-"

// sessionName is the id of the session of a connection.
func sessionName(number int) string { return fmt.Sprintf("%s%07d", sessionPrefix, number) }

func sessionNumber(name string) (int, error) {
	number, err := strconv.Atoi(strings.TrimPrefix(name, sessionPrefix))
	if err != nil || number > math.MaxInt32 || sessionName(number) != name {
		return 0, fmt.Errorf("%q is no session of this run", name)
	}
	return number, nil
}
