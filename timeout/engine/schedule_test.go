package engine_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // for machines without zones

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func TestTheNextRunIsTheFirstTimeAfterTheLastRunAndAfterNow(t *testing.T) {
	const layout = "2006-01-02 15:04:05.999999999"
	at := func(text string) time.Time {
		t.Helper()
		parsed, err := time.Parse(layout, text)
		require.NoError(t, err)
		return parsed
	}
	for _, c := range []struct {
		every, due string
		late       time.Duration // when the run ends, after due
		want       []string      // this run, and those after it if they end in time
	}{
		{"10m", "2026-01-01 00:03:00", 0, []string{"2026-01-01 00:13:00", "2026-01-01 00:23:00"}},
		{"10m", "2026-01-01 00:03:00", time.Nanosecond, []string{"2026-01-01 00:13:00"}},
		{"10m", "2026-01-01 00:03:00", 10*time.Minute - 1, []string{"2026-01-01 00:13:00"}},
		{"10m", "2026-01-01 00:03:00", 10 * time.Minute, []string{"2026-01-01 00:23:00"}}, // never now: each time once
		{"10m", "2026-01-01 00:03:00", 25 * time.Hour, []string{"2026-01-02 01:13:00"}},   // one run, not 150
		{"10m", "2026-01-01 00:03:00", -time.Hour, []string{"2026-01-01 00:13:00"}},       // the clock was stepped back
		{"@every 1h30m", "2026-01-01 00:00:00", 0, []string{"2026-01-01 01:30:00"}},
		{"1500ms", "2026-01-01 00:00:00", 0, []string{"2026-01-01 00:00:01.5", "2026-01-01 00:00:03"}},
		{"@every 1500ms", "2026-01-01 00:00:00", 0, []string{"2026-01-01 00:00:01.5", "2026-01-01 00:00:03"}}, // the same
		{"TZ=Asia/Tokyo @every 1m0.25s", "2026-01-01 00:00:00", 0, []string{"2026-01-01 00:01:00.25"}},
		{"CRON_TZ=Europe/Berlin @every 1h", "2026-03-29 00:30:00", 0, []string{"2026-03-29 01:30:00"}}, // no zone in it
		{"1d", "2026-03-28 09:00:00", 0, []string{"2026-03-29 09:00:00"}},
		{"2d12h", "2026-01-01 00:00:00", 0, []string{"2026-01-03 12:00:00"}},
		{"@every 1d0.5s", "2026-01-01 00:00:00", 0, []string{"2026-01-02 00:00:00.5"}},

		{"*/15 * * * *", "2026-01-01 00:03:00", 0, []string{"2026-01-01 00:15:00", "2026-01-01 00:30:00"}},
		{"0 3 * * *", "2026-01-01 03:00:00", 0, []string{"2026-01-02 03:00:00"}},
		{"0 3 * * *", "2026-01-01 03:00:00", 50 * time.Hour, []string{"2026-01-04 03:00:00"}},
		{"0 3 * * *", "2026-01-01 03:00:00", -time.Hour, []string{"2026-01-02 03:00:00"}},
		{"0 3 * * *", "2026-01-01 02:59:59.999", 0, []string{"2026-01-01 03:00:00"}},
		{"@daily", "2026-01-01 03:00:00", 0, []string{"2026-01-02 00:00:00"}},
		{"0 0 13 * 5", "2026-02-10 00:00:00", 0, []string{"2026-02-13 00:00:00", "2026-02-20 00:00:00"}}, // the 13th, and each Friday
		{"0 0 31 * *", "2026-04-01 00:00:00", 0, []string{"2026-05-31 00:00:00", "2026-07-31 00:00:00"}},
		{"0 0 29 2 *", "2096-02-29 00:00:00", 0, []string{"2104-02-29 00:00:00"}},

		// The last day, the last but three, the last weekday, the weekday nearest to a day of the month, and days of weeks.
		{"0 9 L * *", "2026-01-31 09:00:00", 0, []string{"2026-02-28 09:00:00", "2026-03-31 09:00:00", "2026-04-30 09:00:00"}},
		{"0 9 L 2 *", "2026-01-31 09:00:00", 0, []string{"2026-02-28 09:00:00", "2027-02-28 09:00:00", "2028-02-29 09:00:00"}},
		{"0 9 L-3 * *", "2026-01-31 09:00:00", 0, []string{"2026-02-25 09:00:00", "2026-03-28 09:00:00"}},
		{"0 9 LW * *", "2026-01-31 09:00:00", 0, []string{"2026-02-27 09:00:00", "2026-03-31 09:00:00"}},
		{"0 9 15W * *", "2026-01-31 09:00:00", 0, []string{"2026-02-16 09:00:00", "2026-03-16 09:00:00", "2026-04-15 09:00:00"}},
		{"0 9 1W * *", "2026-07-31 09:00:00", 0, []string{"2026-08-03 09:00:00", "2026-09-01 09:00:00"}}, // in the same month
		{"0 9 * * FRI#2", "2026-01-31 09:00:00", 0, []string{"2026-02-13 09:00:00", "2026-03-13 09:00:00"}},
		{"0 9 * * 5#5", "2026-01-31 09:00:00", 0, []string{"2026-05-29 09:00:00", "2026-07-31 09:00:00"}},
		{"0 9 * * FRI#L", "2026-01-31 09:00:00", 0, []string{"2026-02-27 09:00:00", "2026-03-27 09:00:00"}},
		{"0 9 * * 5L", "2026-01-31 09:00:00", 0, []string{"2026-02-27 09:00:00", "2026-03-27 09:00:00"}},
		{"0 9 * * friL", "2026-01-31 09:00:00", 0, []string{"2026-02-27 09:00:00", "2026-03-27 09:00:00"}},
		{"0 9 1,L * *", "2026-01-31 09:00:00", 0, []string{"2026-02-01 09:00:00", "2026-02-28 09:00:00", "2026-03-01 09:00:00"}},
		{"0 9 L * 1#1", "2026-01-31 09:00:00", 0, []string{"2026-02-02 09:00:00", "2026-02-28 09:00:00"}},                          // one or the other
		{"CRON_TZ=Europe/Berlin 30 2 * * SUN#L", "2026-02-22 01:30:00", 0, []string{"2026-03-29 01:30:00", "2026-04-26 00:30:00"}}, // and skipped

		// In UTC. Berlin goes from 02:00 to 03:00 at 01:00 UTC on the 29th of March 2026, and back
		// from 03:00 to 02:00 at 01:00 UTC on the 25th of October.
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28 01:30:00", 0, []string{"2026-03-29 01:30:00", "2026-03-30 00:30:00"}},
		{"CRON_TZ=Europe/Berlin 30 2,3 * * *", "2026-03-28 02:30:00", 0, []string{"2026-03-29 01:30:00", "2026-03-30 00:30:00"}},
		{"CRON_TZ=Europe/Berlin */30 * * * *", "2026-03-29 00:30:00", 0, []string{"2026-03-29 01:00:00", "2026-03-29 01:30:00"}},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24 00:30:00", 0, []string{"2026-10-25 00:30:00", "2026-10-26 01:30:00"}},
		{"TZ=Europe/Berlin 0,30 2 * * *", "2026-10-25 00:00:00", 0, []string{"2026-10-25 00:30:00", "2026-10-26 01:00:00"}},
		{"CRON_TZ=Europe/Berlin 0 */2 * * *", "2026-10-24 22:00:00", 0, []string{"2026-10-25 00:00:00", "2026-10-25 03:00:00"}},
		{"CRON_TZ=Europe/Berlin 0 * * * *", "2026-10-24 23:00:00", 0, []string{"2026-10-25 00:00:00", "2026-10-25 01:00:00", "2026-10-25 02:00:00"}},
		{"CRON_TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-03 14:45:00", 0, []string{"2026-04-04 14:45:00", "2026-04-05 15:15:00"}}, // half an hour
		{"CRON_TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-02 15:45:00", 0, []string{"2026-10-03 15:45:00", "2026-10-04 15:15:00"}},

		// The last day of a leap year.
		{"CRON_TZ=Europe/Berlin 0 9 * * *", "2040-12-29 08:00:00", 0, []string{"2040-12-30 08:00:00", "2040-12-31 08:00:00", "2041-01-01 08:00:00"}},
		{"CRON_TZ=Europe/Berlin 0 0 1 1 *", "2039-12-31 23:00:00", 0, []string{"2040-12-31 23:00:00", "2041-12-31 23:00:00"}},
		{"CRON_TZ=America/Santiago 0 9 * * 6", "2040-12-29 12:00:00", 0, []string{"2041-01-05 12:00:00"}},

		// Midnight is skipped, on a Friday and on a Sunday.
		{"CRON_TZ=Africa/Cairo 0 9 * * 4", "2026-04-23 07:00:00", 0, []string{"2026-04-30 06:00:00"}},
		{"CRON_TZ=Africa/Cairo 0 9 * * 5", "2026-04-17 07:00:00", 0, []string{"2026-04-24 06:00:00", "2026-05-01 06:00:00"}},
		{"CRON_TZ=Africa/Cairo 0 0 * * *", "2026-04-22 22:00:00", 0, []string{"2026-04-23 22:00:00", "2026-04-24 21:00:00"}},
		{"CRON_TZ=America/Santiago 0 9 * * 6", "2026-09-05 13:00:00", 0, []string{"2026-09-12 12:00:00"}},
		{"CRON_TZ=Asia/Beirut @weekly", "2026-03-21 22:00:00", 0, []string{"2026-03-28 22:00:00", "2026-04-04 21:00:00"}},
	} {
		t.Run(c.every+" "+c.due, func(t *testing.T) {
			schedule, err := engine.ParseSchedule(c.every)
			require.NoError(t, err)
			due, now := at(c.due), at(c.due).Add(c.late)
			for _, want := range c.want {
				due = schedule.Next(due, now)
				require.Equal(t, want, due.Format(layout))
				now = due
			}
		})
	}
}

// Another way to the same times: a walk through the days of all steps of the clocks in two years. A time that the
// clocks skip counts later by the step. One that they show twice counts once, unless all hours are meant.
func TestTheTimesOfAnExpressionAreThoseOfAWalk(t *testing.T) {
	const quarter = 15 * time.Minute // all expressions and steps are multiples of it
	for _, name := range []string{
		"Europe/Berlin", "Africa/Cairo", "America/Santiago", "America/Havana", "America/Nuuk", "America/St_Johns",
		"Asia/Beirut", "Australia/Lord_Howe", "Antarctica/Troll", "Atlantic/Azores", "Asia/Kolkata",
	} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		for _, text := range []string{
			"30 2 * * *", "0 9 * * 4", "15 2 * * *", "*/15 0-3 * * *", "0 0 * * *", "15 23,0,1 * * *", "*/30 22-23 * * *",
			"*/15 * * * 5", "15 * * * *", "0 0 * * 0", "45 23 * * 6", "0 2 L * *", "30 1 * * SUN#L", "15 0 LW * *", "0 0 29 3 *", "30 0 25 10 1",
		} {
			schedule, err := engine.ParseSchedule("CRON_TZ=" + name + " " + text)
			require.NoError(t, err)
			for _, step := range append(steps(zone, 2026), steps(zone, 2040)...) {
				begin, end := step.Add(-36*time.Hour).Truncate(24*time.Hour), step.Add(36*time.Hour)
				next := begin.Add(-1)
				for _, want := range walk(t, zone, text, begin, end, quarter) {
					next = schedule.Next(next, next)
					require.Equal(t, want, next, "%s in %s", text, name)
				}
				require.False(t, schedule.Next(next, next).Before(end), "%s in %s: one more before %v", text, name, end)
			}
		}
	}
}

// steps returns when the clocks of a zone make a step in a year, and the begin and the end of that year.
func steps(zone *time.Location, year int) []time.Time {
	begin, end := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC)
	steps := []time.Time{begin, end}
	ahead := func(at time.Time) int { _, ahead := at.In(zone).Zone(); return ahead }
	for at := begin; at.Before(end); at = at.Add(time.Hour) {
		if ahead(at) != ahead(at.Add(time.Hour)) {
			steps = append(steps, at.Add(time.Hour))
		}
	}
	return steps
}

// walk returns all times of an expression in [begin, end), by its times in UTC and the clocks of the zone.
func walk(t *testing.T, zone *time.Location, text string, begin, end time.Time, by time.Duration) []time.Time {
	inUTC, err := engine.ParseSchedule(text)
	require.NoError(t, err)
	shown := func(at time.Time) time.Time {
		_, ahead := at.In(zone).Zone()
		return at.Add(time.Duration(ahead) * time.Second)
	}
	matches := func(clock time.Time) bool { return inUTC.Next(clock.Add(-1), clock.Add(-1)).Equal(clock) }
	eachHour := strings.Fields(text)[1] == "*"
	found, before := map[time.Time]bool{}, map[time.Time]bool{}
	for at := begin.Add(-4 * time.Hour); at.Before(end); at = at.Add(by) {
		clock := shown(at)
		if matches(clock) && (eachHour || !before[clock]) {
			found[at] = true
		}
		before[clock] = true
		first := shown(at.Add(-by)).Add(by)
		for skipped := first; !eachHour && skipped.Before(clock); skipped = skipped.Add(by) {
			if matches(skipped) {
				found[at.Add(skipped.Sub(first))] = true
			}
		}
	}
	times := slices.SortedFunc(maps.Keys(found), time.Time.Compare)
	return slices.DeleteFunc(times, func(at time.Time) bool { return at.Before(begin) || !at.Before(end) })
}

func TestTheZoneOfTheCallerDoesNotMatter(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for _, every := range []string{"0 3 * * *", "CRON_TZ=Local 0 3 * * *", "CRON_TZ=UTC 0 3 * * *"} {
		schedule, err := engine.ParseSchedule(every)
		require.NoError(t, err)
		due := time.Date(2026, 7, 1, 3, 0, 0, 0, time.UTC)
		require.Equal(t, due.AddDate(0, 0, 1), schedule.Next(due.In(berlin), due.In(berlin)), every)
	}
}

func TestAScheduleThatNobodyCanKeepIsRefused(t *testing.T) {
	for every, want := range map[string]string{
		"999ms":                                 `"999ms", must be from 1s to 876000h0m0s`,
		"-1h":                                   "must be from 1s",
		"1000000h":                              "to 876000h0m0s",
		"@every 10ms":                           "at least 1s",
		"often":                                 "must be a duration or a cron expression",
		"* * * *":                               "expected exactly 5 fields",
		"* * * * * *":                           "expected exactly 5 fields",
		"60 * * * *":                            "60",
		"0 0 30 2 *":                            "must have a time within 9 years",
		"0 0 30W 2 *":                           "must have a time within 9 years",
		"0 0 L-31 * *":                          "L-31",
		"0 0 32W * *":                           "day must be 1-31",
		"0 0 * * 1#6":                           "occurrence must be 1-5",
		"0 0 * * 8L":                            "8L",
		"106752d":                               "must be a duration or a cron expression",
		"36501d":                                "must be from 1s to 876000h0m0s",
		"1d1d":                                  "must be a duration or a cron expression",
		"12h1d":                                 "must be a duration or a cron expression",
		"1.5d":                                  "must be a duration or a cron expression",
		"CRON_TZ=Mars/Olympus * * * * *":        "Mars/Olympus",
		"CRON_TZ=UTC":                           "",
		"CRON_TZ=Local 0 3 * * *":               "must have UTC or a zone such as Europe/Berlin: each node may have another local one",
		"TZ=Local @every 1h":                    "must have UTC or a zone",
		"CRON_TZ=Local @daily":                  "must have UTC or a zone",
		"@reboot":                               "@reboot",
		strings.Repeat("1,", 100) + "1 * * * *": "has 209 bytes, must have at most 200",
	} {
		err := engine.Topic{Name: "t", Every: every}.Check()
		require.ErrorIs(t, err, engine.ErrArgument, every)
		require.ErrorContains(t, err, want)
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add("10m", int64(0), int64(1))
	f.Add("1d", int64(0), int64(1))
	f.Add("0 9 L,15W * FRI#2", int64(0), int64(1))
	f.Add("CRON_TZ=Europe/Berlin 30 2 * * *", int64(1774659600000), int64(0))
	f.Fuzz(func(t *testing.T, text string, due, late int64) {
		schedule, err := engine.ParseSchedule(text)
		if err != nil {
			require.ErrorIs(t, err, engine.ErrArgument)
			return
		}
		const years = int64(200 * 365 * 24 * time.Hour / time.Millisecond)
		at := time.UnixMilli(((due % years) + years) % years)
		now := at.Add(time.Duration(late%years) * time.Millisecond)
		next := schedule.Next(at, now)
		require.True(t, next.After(at), "%v is not after %v", next, at)
		require.True(t, next.After(now), "%v is not after %v", next, now)
	})
}

func TestATaskThatWaitsForATimeOfOneScheduleGetsOneOfAnother(t *testing.T) {
	at := func(text string) time.Time {
		t.Helper()
		parsed, err := time.ParseInLocation("2006-01-02 15:04:05", text, time.FixedZone("", 3600))
		require.NoError(t, err)
		return parsed
	}
	now := at("2026-11-29 10:00:30")
	for _, c := range []struct {
		before, due string
		has         bool
		every, want string // if before has due
	}{
		{"CRON_TZ=Europe/Berlin 0 0 1 1 *", "2027-01-01 00:00:00", true, "1s", "2026-11-29 10:00:31"},
		{"CRON_TZ=Europe/Berlin 0 0 1 1 *", "2027-01-01 00:00:00", true, "2h", "2026-11-29 12:00:00"},
		{"CRON_TZ=Europe/Berlin 0 0 1 1 *", "2027-01-01 00:00:00", true, "CRON_TZ=Europe/Berlin 0 12 * * *", "2026-11-29 12:00:00"},
		{"CRON_TZ=Europe/Berlin 0 0 1 1 *", "2027-01-01 00:00:00", true, "9000h", "2027-01-01 00:00:00"},
		{"0 0 1 1 *", "2027-01-01 00:00:00", false, "", ""}, // that is another time in UTC
		{"CRON_TZ=Europe/Berlin 0 0 1 1 *", "2027-01-01 00:00:01", false, "", ""},
		{"CRON_TZ=Europe/Berlin 0 0 1 1 *", "2027-01-02 00:00:00", false, "", ""},
		{"1h", "2026-11-29 10:59:59", true, "10m", "2026-11-29 10:09:59"},
		{"1h", "2026-11-29 11:00:30", true, "10m", "2026-11-29 10:10:30"}, // never now
		{"1h", "2026-11-29 10:00:31", true, "10m", "2026-11-29 10:00:31"},
		{"1h", "2026-11-29 11:00:30", true, "0 0 1 1 *", "2027-01-01 01:00:00"},
		{"1h", "2026-11-29 11:00:31", false, "", ""}, // no interval is so long
	} {
		before, err := engine.ParseSchedule(c.before)
		require.NoError(t, err)
		due := at(c.due)
		require.Equal(t, c.has, before.Has(due, now), "%s has %s", c.before, c.due)
		if !c.has {
			continue
		}
		schedule, err := engine.ParseSchedule(c.every)
		require.NoError(t, err)
		got := schedule.Instead(due, now)
		require.True(t, at(c.want).Equal(got), "%s instead of %s: %v", c.every, c.before, got)
		require.True(t, got.Equal(schedule.Instead(got, now)), "it stays")
	}
}
