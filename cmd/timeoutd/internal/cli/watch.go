package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

const (
	minEvery = 100 * time.Millisecond

	clock = "15:04:05 -07:00"

	// home goes to the top of the terminal. clearLine empties the rest of a line, and
	// clearRest all below. Text written over the old one does not flicker.
	home      = "\x1b[H"
	clearLine = "\x1b[K"
	clearRest = "\x1b[J"
	hide      = "\x1b[?25l"
	show      = "\x1b[?25h"
)

func (s *session) stats(ctx context.Context, _ []string) error {
	stats, err := s.Stats(ctx)
	if err = s.answered(err); err == nil {
		err = draw(s.out, stats, nil)
	}
	if err == nil && stats.Error != "" {
		err = errors.New("the engine does not answer")
	}
	return err
}

func (s *session) members(ctx context.Context, _ []string) error {
	members, err := s.Members(ctx)
	t := newTable(s.out, "NODE", "ROLE", "TOPICS")
	for _, node := range members.Nodes {
		topics := strings.Join(node.Topics, " ")
		if node.Topics == nil {
			topics = "all"
		}
		t.row(node.Name, role(members, node.Name), topics)
	}
	return s.show(err, t)
}

func role(m wire.Members, name string) string {
	var is []string
	if name == m.Leader {
		is = append(is, "leader")
	}
	if name == m.Node {
		is = append(is, "answers")
	}
	return cmp.Or(strings.Join(is, ", "), "-")
}

// watch draws the figures again and again: on a terminal over the old ones, elsewhere and with -json
// one after the other.
func watch(s *session, flags *flag.FlagSet) doing {
	every := flags.Duration("every", time.Second, "how often")
	return func(ctx context.Context, _ []string) error {
		if *every < minEvery {
			return misused("-every %v, must be at least %v", *every, minEvery)
		}
		file, _ := s.stdout.(*os.File)
		terminal := file != nil && term.IsTerminal(int(file.Fd())) && !s.asJSON
		if terminal {
			fmt.Fprint(s.stdout, hide)
			defer fmt.Fprint(s.stdout, show)
		}
		var told *timeoutclient.Error
		var before, last *wire.Stats // the last two different ones
		for again := time.Tick(*every); ; {
			text := new(bytes.Buffer)
			s.said.text.Reset()
			stats, err := s.Stats(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.As(err, &told) && told.Status/100 == 4: // it will not get better
				return err
			case err != nil:
				fmt.Fprintf(text, "%s: %s\n", time.Now().Format(clock), clean(err.Error()))
			case s.asJSON:
				_, _ = s.said.text.WriteTo(s.stdout)
			default:
				if last == nil || !last.Sums.At.Equal(stats.Sums.At.Time) {
					before, last = last, &stats
				}
				_ = draw(text, stats, before)
			}
			if terminal {
				width, height, err := term.GetSize(int(file.Fd()))
				if err != nil {
					width, height = 80, 24
				}
				text = over(text.String(), width, height)
			}
			if _, err := text.WriteTo(s.stdout); err != nil {
				return err
			}
			select {
			case <-again:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// over returns the codes to write a text over another one on a terminal, as far as there is
// room.
func over(text string, width, height int) *bytes.Buffer {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := max(height-1, 2); len(lines) > most {
		lines = append(lines[:most-1], fmt.Sprintf("and %d more lines, for which there is no room", len(lines)-most+1))
	}
	out := bytes.NewBufferString(home)
	for _, line := range lines {
		out.WriteString(brief(line, max(width, 2)) + clearLine + "\n")
	}
	out.WriteString(clearRest)
	return out
}

// draw writes figures. With earlier ones it adds rates.
func draw(w io.Writer, stats wire.Stats, before *wire.Stats) error {
	m := stats.Members
	fmt.Fprintf(w, "%s  %s  %s\nnodes: %d, led by %s\n", stats.At.Local().Format(clock), clean(stats.Node), clean(stats.Engine),
		len(m.Nodes), clean(cmp.Or(m.Leader, "nobody")))
	switch missing := stats.Sums.Missing; {
	case len(m.Nodes) > 1 && !stats.Sums.Asked:
		fmt.Fprintln(w, "DONE to LATE P99 are of this node alone, the rest is of all")
	case len(missing) > 0:
		fmt.Fprintf(w, "DONE to LATE P99 are of %d of %d nodes, without %s\n", len(stats.Sums.Nodes), len(stats.Sums.Nodes)+len(missing), brief(strings.Join(missing, " "), 200))
	}
	if stats.Error != "" {
		fmt.Fprintf(w, "the engine does not answer: %s\n", brief(stats.Error, 200))
	}
	for _, circuit := range stats.Circuits {
		fmt.Fprintf(w, "no calls for a while to %s\n", brief(circuit, 100))
	}
	for _, topic := range stats.Unserved {
		fmt.Fprintf(w, "no node can run due tasks of %s: it has no callback\n", brief(topic, 100))
	}
	fmt.Fprintln(w)
	t := newTable(w, "TOPIC", "PENDING", "DUE", "LAG", "RUNNING", "DEAD", "DONE", "FAILED", "AGAIN", "LOST", "EARLY", "LATE P99", "SLOTS", "")
	for _, topic := range stats.Topics {
		t.row(cells(topic, stats, before)...)
	}
	if len(stats.Topics) == 0 {
		t.row("no topics yet")
	}
	return t.Flush()
}

func cells(topic wire.TopicStats, stats wire.Stats, before *wire.Stats) []string {
	row := []string{brief(topic.Name, 40), "?", "?", "?", "?", "?"}
	if c := topic.Counts; c != nil {
		row = []string{brief(topic.Name, 40), number(c.Pending), number(c.Due), seconds(c.Lag), number(c.Running), number(c.Dead)}
	}
	note := ""
	if topic.Paused {
		note = runsOrNot(topic.Read())
	}
	all := topic.All
	if all == nil {
		return append(row, "-", "-", "-", "-", "-", "-", number(len(topic.Owners)), note)
	}
	done := number(all.Done)
	if was := find(before, topic.Name); was != nil && slices.Equal(before.Sums.Nodes, stats.Sums.Nodes) && all.Done >= was.Done {
		if took := stats.Sums.At.Sub(before.Sums.At.Time).Seconds(); took > 0 {
			done += fmt.Sprintf(" (%.0f/s)", float64(all.Done-was.Done)/took)
		}
	}
	return append(row, done, number(all.Failed), number(all.Again), number(all.Lost), number(all.Early), seconds(all.Late.P99),
		fmt.Sprintf("%d of %d", len(all.Slots), len(topic.Owners)), note)
}

func find(stats *wire.Stats, name string) *wire.Here {
	if stats == nil {
		return nil
	}
	for _, topic := range stats.Topics {
		if topic.Name == name {
			return topic.All
		}
	}
	return nil
}
