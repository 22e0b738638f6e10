//go:build interop && unix

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/callback"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// longForm is an environment variable. If it is set, the tests of faults are as long as in
// life: 1000 kills, and etcd away for a minute.
const longForm = "HEARTWHEEL_LONG_FAULTS"

func isLong() bool { return os.Getenv(longForm) != "" }

// setOnce is a task as it was set once.
type setOnce struct {
	id      string
	version int64
}

// delivery is a call for a setOnce.
type delivery struct {
	attempt  int
	node     string        // the caller
	late     time.Duration // after the action time
	at       time.Time
	answered time.Time // zero before
}

// worker is a node with its secret.
type worker struct {
	node   string
	secret []byte
}

// witness is a target with a record of the calls: the caller and the task. Each process signs
// with a secret of its own, so the witness can tell them apart.
type witness struct {
	*httptest.Server
	hold func(id, node string) // called before the answer, if not nil

	mu      sync.Mutex
	workers []worker // the latest last
	calls   map[setOnce][]*delivery
	wrong   []string // faulty calls
}

func newWitness(t *testing.T, hold func(id, node string)) *witness {
	w := &witness{hold: hold, calls: make(map[setOnce][]*delivery)}
	w.Server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.Close)
	return w
}

func (w *witness) serve(_ http.ResponseWriter, r *http.Request) {
	now := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the process was killed while it sent this
	}
	m, err := callback.Parse(r.Header.Get)
	d := &delivery{attempt: m.Attempt, node: w.caller(r.Header, body), at: now, late: now.Sub(m.Due)}
	set := setOnce{m.ID, m.Version}
	w.mu.Lock()
	switch {
	case err != nil:
		w.wrong = append(w.wrong, err.Error())
	case d.late < 0:
		w.wrong = append(w.wrong, fmt.Sprint(set, " is called for ", -d.late, " early"))
	case d.node == "":
		w.wrong = append(w.wrong, fmt.Sprint(set, " is called for by nobody who is known"))
	}
	w.calls[set] = append(w.calls[set], d)
	w.mu.Unlock()
	if w.hold != nil {
		w.hold(m.ID, d.node)
	} else {
		time.Sleep(50 * time.Millisecond) // so that some calls are under way at any time
	}
	w.mu.Lock()
	d.answered = time.Now()
	w.mu.Unlock()
}

// caller returns the node of a call by its signature.
func (w *witness) caller(header http.Header, body []byte) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range slices.Backward(w.workers) { // live ones first
		if httpcall.Verify(header, body, time.Now(), time.Hour, one.secret) == nil {
			return one.node
		}
	}
	return ""
}

// employ returns p with the settings that make its calls known.
func (w *witness) employ(p process, node string) process {
	secret := sha256.Sum256([]byte(node))
	w.mu.Lock()
	w.workers = append(w.workers, worker{node, secret[:]})
	w.mu.Unlock()
	p.args = append(slices.Clone(p.args), "-node", node, "-callback-allow", "127.0.0.0/8")
	p.env = append(slices.Clone(p.env), "TIMEOUTD_CALLBACK_SECRET=whsec_"+base64.StdEncoding.EncodeToString(secret[:]))
	return p
}

// seen returns the calls by task.
func (w *witness) seen() map[setOnce][]delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := make(map[setOnce][]delivery, len(w.calls))
	for set, calls := range w.calls {
		for _, d := range calls {
			seen[set] = append(seen[set], *d)
		}
	}
	return seen
}

// missing returns the wanted tasks without a call.
func (w *witness) missing(wanted []setOnce) []setOnce {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(wanted), func(set setOnce) bool { return w.calls[set] != nil })
}

// mistakes returns faulty calls, such as early ones.
func (w *witness) mistakes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.wrong)
}

// setter sets tasks by the API, as a client of several servers does.
type setter struct {
	http http.Client

	mu       sync.Mutex
	accepted []setOnce
	unknown  int // there or not: the answer did not come
	refused  []string
}

func newSetter(t *testing.T) *setter {
	s := &setter{http: http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{}}}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// set sets tasks in one batch, due after the given times. It reports whether the batch was
// accepted.
func (s *setter) set(addr string, after map[string]time.Duration) bool {
	var batch struct {
		Tasks []wire.KeyedSetting `json:"tasks"`
	}
	ids := slices.Sorted(maps.Keys(after))
	for _, id := range ids {
		var one wire.KeyedSetting
		one.Topic, one.ID = "t", id
		when := wire.Duration(after[id])
		one.After = &when
		batch.Tasks = append(batch.Tasks, one)
	}
	body, err := json.Marshal(batch)
	if err != nil {
		panic(err)
	}
	var said wire.Answers
	res, err := s.http.Post("http://"+addr+"/v1/tasks/set", "application/json", bytes.NewReader(body))
	if err == nil {
		defer res.Body.Close()
		body, err = io.ReadAll(res.Body)
	}
	if err == nil && res.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, &said)
	} else if err == nil {
		err = fmt.Errorf("%s: %s", res.Status, body)
		s.refuse(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || len(said.Answers) != len(ids) {
		s.unknown += len(ids)
		return false
	}
	for i, answer := range said.Answers {
		if answer.Error != nil {
			s.refused = append(s.refused, answer.Error.Detail)
			continue
		}
		s.accepted = append(s.accepted, setOnce{ids[i], answer.Version})
	}
	return true
}

func (s *setter) refuse(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, text)
}

// all returns the accepted tasks.
func (s *setter) all() []setOnce {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.accepted)
}

// serveTopic makes the tasks of topic t call the witness.
func (p *process) serveTopic(t *testing.T, w *witness, more string) {
	t.Helper()
	status, answer := p.ask(t, http.MethodPut, "/v1/topics/t", `{`+more+`"callback":{"kind":"http","target":"`+w.URL+`"}}`)
	require.Equal(t, http.StatusOK, status, answer)
}

// rests waits until no task waits, runs or is dead. Figures from before this call do not count: the
// latest tasks may not be among them.
func (p *process) rests(t *testing.T) {
	t.Helper()
	called := time.Now()
	require.Eventually(t, func() bool {
		stats, topic := p.stats(t)
		c := topic.Counts
		return !stats.At.Before(called) && c != nil && c.Pending == 0 && c.Running == 0 && c.Dead == 0
	}, eternal, 50*time.Millisecond)
}
