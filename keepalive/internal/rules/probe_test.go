package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

var probing = rules.Policy{ProbeAfter: 8 * tick, ProbeTimeout: 4 * tick, ProbeCount: 2}

// Pressure came while a probe was sent, and its Timeout is over now. The answer is not waited for.
func TestPressureWhileAProbeIsSent(t *testing.T) {
	p := rules.Policy{Timeout: 60 * tick, ProbeAfter: 30 * tick, ProbeTimeout: 4 * tick, ProbeCount: 1, Pressed: 15 * tick}
	trace(t, p, rules.State{}, row{now: at(31), with: func(e *rules.Evidence) { e.Answer.Probed, e.Pressure = rules.Sent, 1 }, want: closes(rules.Idle)})
}

// OnIdle was taken away while a probe of its was sent. The answer has its time, as any other.
func TestNoQuestionsWhileAProbeIsSent(t *testing.T) {
	s := rules.State{Silence: rules.Silence{Stage: rules.Probing, Probes: 2, Why: rules.NoAnswer, Until: at(16)}}
	trace(t, probing, s,
		row{now: at(16), with: and(sent, answer(rules.NoAnswer, rules.ProbeIt)), want: wait(at(20))},
		row{now: at(20), want: closes(rules.NoAnswer)})
	trace(t, probing, s, row{now: at(16), with: answer(rules.NoAnswer, rules.Pardon), want: closes(rules.NoAnswer)})
}

// ReadIdle ended while a probe was sent, or the user was asked about the silence. What came of it holds on.
func TestQuestionsOfTwoKinds(t *testing.T) {
	p := rules.Policy{Timeout: 32 * tick, ProbeAfter: 16 * tick, ProbeTimeout: 4 * tick, ProbeCount: 1, ReadIdle: 6 * tick, WriteIdle: 6 * tick, Asks: true}
	unread := answer(rules.ReadIdle, rules.Verdict(50*tick))
	trace(t, p, rules.State{}, row{now: at(17), with: and(moved(0, at(17)), failed, unread), want: ask(rules.NoAnswer)})
	trace(t, p, rules.State{}, row{now: at(17), with: and(moved(0, at(17)), failed, answer(rules.NoAnswer, rules.Pardon), unread), want: wait(at(49))})
	trace(t, p, rules.State{}, row{now: at(17), with: and(moved(0, at(17)), sent, unread), want: wait(at(20))})
	trace(t, p, rules.State{}, row{now: at(17), with: and(moved(0, at(17)), failed, answer(rules.ReadIdle, rules.ProbeIt)), want: ask(rules.NoAnswer)})
	dry := p
	dry.DryRun = true
	readFailed := probedFor(rules.ReadIdle, rules.Failed)
	trace(t, dry, rules.State{}, row{now: at(17), with: and(moved(0, at(17)), readFailed), want: counted(ask(rules.NoAnswer), rules.NoAnswer)})
	answered := and(probedFor(rules.WriteIdle, rules.Sent), func(e *rules.Evidence) { e.Anew = true }) // and then the peer fell silent
	trace(t, p, rules.State{}, row{now: at(17), with: and(moved(at(14), at(17)), answered), want: wait(at(18))})
}

// OnIdle was asked about WriteIdle, then bytes were written, and then it was asked about the silence for long. What was said
// about WriteIdle is not about the silence after those bytes.
func TestAnswersAboutWriteIdleGrowOld(t *testing.T) {
	p := rules.Policy{Timeout: 10 * tick, WriteIdle: 7 * tick, Asks: true}
	said := func(e *rules.Evidence) {
		*e.About(rules.WriteIdle) = rules.Answer{For: rules.WriteIdle, Verdict: rules.Condemn, Asked: at(9)}
		*e.About(rules.Idle) = rules.Answer{For: rules.Idle, Verdict: rules.Verdict(50 * tick), Asked: at(11)}
	}
	trace(t, p, rules.State{}, row{now: at(18), with: and(moved(0, at(10)), said), want: wait(at(68))})
	trace(t, p, rules.State{}, row{now: at(18), with: and(moved(0, at(9)), said), want: ends(rules.WriteIdle)})
}

func TestQuestionIsAboutNoProbeBeforeIt(t *testing.T) {
	for probed, want := range map[rules.Probed]rules.Probed{rules.NotProbed: rules.NotProbed, rules.Sent: rules.NotProbed, rules.Failed: rules.Failed} {
		e := rules.Evidence{Answer: rules.Answer{Probed: probed}}
		require.Equal(t, &rules.Answer{For: rules.Idle, Asked: at(3), Probed: want}, e.Question(rules.Idle, at(3)))
	}
}

func TestProbes(t *testing.T) {
	drawn := func(draw float64) func(e *rules.Evidence) {
		return func(e *rules.Evidence) { e.Draw = draw }
	}
	long := rules.Policy{Timeout: forever, ProbeAfter: forever / 2, ProbeTimeout: forever / 2, ProbeCount: 1}
	for _, c := range []struct {
		name   string
		policy rules.Policy
		state  rules.State
		rows   []row
	}{
		{"two, and no answer", probing, rules.State{}, []row{
			{now: at(8) - 1, want: wait(at(8))},
			{now: at(8), with: mute, want: probe},
			{now: at(8), with: and(mute, sent), want: wait(at(12))},
			{now: at(12), with: mute, want: probe},
			{now: at(12), with: and(mute, sent), want: wait(at(16))},
			{now: at(16) - 1, want: wait(at(16))},
			{now: at(16), with: mute, want: closes(rules.NoAnswer)},
		}},
		{"at a moment of its own", probing, rules.State{}, []row{
			{now: at(6) - 1, with: drawn(1), want: wait(at(6))},
			{now: at(6), with: and(drawn(1), mute), want: probe},
			{now: at(6), with: and(drawn(1), mute, sent), want: wait(at(10))},
			{now: at(10), with: and(drawn(1), mute, sent), want: wait(at(16))}, // the last has more time
			{now: at(16), with: and(drawn(1), mute), want: closes(rules.NoAnswer)},
		}},
		{"a late probe has a tick less", probing, rules.State{}, []row{
			{now: at(9), with: and(mute, sent), want: wait(at(12))},
			{now: at(15), with: and(mute, sent), want: wait(at(18))}, // and the schedule begins anew
			{now: at(18), with: mute, want: closes(rules.NoAnswer)},
		}},
		{"it could not be sent", probing, rules.State{}, []row{
			{now: at(8), with: and(mute, failed), want: closes(rules.NoAnswer)},
		}},
		{"answered by a touch", probing, rules.State{}, []row{
			{now: at(8), with: and(mute, sent), want: wait(at(12))},
			{now: at(12), with: touchedAt(at(9)), want: wait(at(17))},
		}},
		{"answered, and not read", probing, rules.State{}, []row{
			{now: at(8), with: and(mute, sent), want: wait(at(12))},
			{now: at(12), with: asked(rules.Socket{Heard: at(9), Signs: 1}), want: heard(at(9))},
		}},
		{"the kernel is asked four times", probing, rules.State{}, []row{
			{now: at(8), with: and(mute, sent, life(rules.Arrivals)), want: wait(at(9))},
			{now: at(9), with: and(mute, life(rules.Arrivals)), want: wait(at(10))},
			{now: at(10), with: and(life(rules.Arrivals), asked(rules.Socket{Heard: at(9), Signs: 1})), want: heard(at(9))},
		}},
		{"unread bytes leave the time for an answer as it is", probing, rules.State{}, []row{
			{now: at(8), with: and(mute, sent, life(rules.Arrivals)), want: wait(at(9))},
			{now: at(9), with: and(life(rules.Arrivals), asked(rules.Socket{Heard: rules.Unknown, Received: at(0), Unread: 1})), want: wait(at(10))},
			{now: at(12), with: and(life(rules.Arrivals), asked(rules.Socket{Heard: rules.Unknown, Received: at(0), Unread: 1})), want: slowUntil(at(13))},
		}},
		{"stretched", probing, rules.State{Own: 32 * tick}, []row{
			{now: at(16), with: and(mute, sent), want: wait(at(24))},
			{now: at(24), with: and(mute, sent), want: wait(at(32))},
			{now: at(32), with: mute, want: closes(rules.NoAnswer)},
		}},
		{"the timeout comes first", rules.Policy{ProbeAfter: 16 * tick, ProbeTimeout: tick, ProbeCount: 1}, rules.State{}, []row{
			{now: at(16), with: mute, want: closes(rules.Idle)},
		}},
		{"longest of all", long, rules.State{}, []row{
			{now: 0, want: wait(rules.Time(forever / 2))},
			{now: rules.Time(forever / 2), with: and(mute, sent), want: wait(rules.Never - 1)},
			{now: rules.Never - 2, want: wait(rules.Never - 1)},
		}},
		{"longest of all, late", long, rules.State{}, []row{
			{now: rules.Never - 5, with: and(mute, sent), want: wait(rules.Never)},
		}},
		{"longest of all, its own", probing, rules.State{Own: forever}, []row{
			{now: 0, want: wait(rules.Time(forever/2) + 1)},
			{now: rules.Time(forever / 4 * 3), with: and(mute, sent), want: wait(rules.Time(forever/4*3 + forever/4 + 1 - tick))},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { trace(t, c.policy, c.state, c.rows...) })
	}
}

// What the user says about a silence.
func TestVerdicts(t *testing.T) {
	asks := probing
	asks.Asks = true
	first := asks
	first.First = 5 * tick
	one := first
	one.ProbeCount = 1
	opened := rules.Open(&first, &rules.Evidence{})
	dry := rules.Policy{Asks: true, DryRun: true}
	for _, c := range []struct {
		name   string
		policy rules.Policy
		state  rules.State
		rows   []row
	}{
		{"close", rules.Policy{Asks: true}, rules.State{}, []row{
			{now: at(16), with: mute, want: ask(rules.Idle)},
			{now: at(16), with: and(mute, answer(rules.Idle, rules.Condemn)), want: closes(rules.Idle)},
		}},
		{"extend", rules.Policy{Asks: true}, rules.State{}, []row{
			{now: at(16), with: and(mute, answer(rules.Idle, rules.Verdict(5*tick))), want: wait(at(21))},
			{now: at(21) - 1, want: wait(at(21))},
			{now: at(21), with: mute, want: ask(rules.Idle)},
		}},
		{"extend for ever", rules.Policy{Asks: true}, rules.State{}, []row{
			{now: at(16), with: and(mute, answer(rules.Idle, rules.Verdict(forever))), want: wait(rules.Never)},
		}},
		{"ignore", rules.Policy{Asks: true}, rules.State{}, []row{
			{now: at(16), with: and(mute, answer(rules.Idle, rules.Pardon)), want: wait(at(32))},
			{now: at(32), with: mute, want: wait(at(48))},
		}},
		{"probe, without probes", rules.Policy{Asks: true}, rules.State{}, []row{
			{now: at(16), with: and(mute, answer(rules.Idle, rules.ProbeIt)), want: closes(rules.Idle)},
		}},
		{"probe, and probes are gone when it was sent", rules.Policy{Asks: true}, rules.State{}, []row{
			{now: at(16), with: and(mute, sent, answer(rules.Idle, rules.ProbeIt)), want: wait(at(32))},
			{now: at(17), with: and(mute, life(rules.Arrivals)), want: wait(at(21))},
			{now: at(32), with: mute, want: closes(rules.NoAnswer)},
		}},
		{"probe", first, opened, []row{
			{now: at(5), with: mute, want: ask(rules.FirstMessage)},
			{now: at(5), with: and(mute, answer(rules.FirstMessage, rules.ProbeIt)), want: probe},
			{now: at(5), with: and(mute, sent, answer(rules.FirstMessage, rules.ProbeIt)), want: wait(at(9))},
			{now: at(9), with: mute, want: closes(rules.NoAnswer)}, // no question any more
		}},
		{"probe, of a policy with one", one, opened, []row{
			{now: at(5), with: and(mute, answer(rules.FirstMessage, rules.ProbeIt)), want: probe},
		}},
		{"probe, and it can't be sent", first, opened, []row{
			{now: at(5), with: and(mute, failed, answer(rules.FirstMessage, rules.ProbeIt)), want: closes(rules.NoAnswer)},
		}},
		{"probe once more", asks, rules.State{Silence: rules.Silence{Stage: rules.Probing, Probes: 2, Why: rules.NoAnswer, Until: at(16)}}, []row{
			{now: at(16), with: mute, want: ask(rules.NoAnswer)},
			{now: at(16), with: and(mute, sent, answer(rules.NoAnswer, rules.ProbeIt)), want: wait(at(20))},
			{now: at(20), with: mute, want: closes(rules.NoAnswer)},
		}},
		{"in a dry run", dry, rules.State{}, []row{
			{now: at(16), with: mute, want: ask(rules.Idle)},
			{now: at(16), with: and(mute, answer(rules.Idle, rules.Condemn)), want: counted(wait(at(32)), rules.Idle)},
		}},
		{"an answer about something else", rules.Policy{Asks: true}, rules.State{}, []row{
			{now: at(16), with: and(mute, answer(rules.ReadIdle, rules.Pardon)), want: ask(rules.Idle)},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { trace(t, c.policy, c.state, c.rows...) })
	}
}

func TestEvidenceThatOutlastsATouch(t *testing.T) {
	k := rules.Socket{Arrived: 1}
	for why := rules.Peer; why < rules.Reasons; why++ {
		e := rules.Evidence{
			Life: rules.Touches, Draw: 1, Born: 1, Touched: 1, Quiet: true, Due: true, Pressure: 1, Beats: 1,
			Socket: k, Retry: 1, Begun: 1,
		}
		*e.About(why) = rules.Answer{For: why, Verdict: rules.Verdict(time.Second), Asked: 1, Probed: rules.Sent}
		want := rules.Evidence{Socket: k, Retry: 1, Begun: 1, Anew: true}
		want.About(why).Asked = 1
		if why == rules.ReadIdle || why == rules.WriteIdle { // a touch is no byte
			*want.About(why) = rules.Answer{For: why, Verdict: rules.Verdict(time.Second), Asked: 1, Probed: rules.Sent}
		}
		if got := e.Lasting(); got != want {
			t.Errorf("%d: %+v", why, got)
		}
	}
	require.Zero(t, rules.Evidence{}.Lasting(), "a visit that has not begun")
}
