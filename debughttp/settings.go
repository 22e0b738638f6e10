package debughttp

import (
	"encoding/json"
	"flag"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/keepersettings"
	"github.com/heartwheel-go/heartwheel/internal/settings"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Settings is the Keeper's config in force, by name. Zero, false and "" are off. For a function it says
// whether there is one. The names stay as they are; later versions may have more:
// timeout_seconds, tick_seconds, activity, first_message_seconds, read_idle_seconds,
// write_idle_seconds, write_stall_seconds, max_unsent, multiplier, min_timeout_seconds, max_timeout_seconds, probe, probe_after_seconds,
// probe_timeout_seconds, probe_count, max_age_seconds, max_age_jitter, max_age_grace_seconds, checks (how
// many), min_beat_seconds, min_rate_bytes_per_second, strikes, max_conns, full, evict_min_idle_seconds,
// max_per_key, max_per_user, pressure, pressure_low, pressure_high, pressure_timeout_seconds, on_idle, on_max_age, on_refuse,
// on_close, farewell, farewell_timeout_seconds, close_mode, max_close_per_second, advise and dry_run.
type Settings map[string]any

// settingsOf leaves the defaults of a policy zero while the policy is off.
func settingsOf(cfg keepalive.Config) Settings {
	s := Settings{}
	for setting := range keepersettings.All(&cfg) {
		name, value := shown(setting)
		if setting.Off {
			value = reflect.Zero(reflect.TypeOf(value)).Interface()
		}
		s[name] = value
	}
	return s
}

// shown returns the name and the value of a setting in JSON.
func shown(setting settings.Setting) (name string, value any) {
	name = strings.ReplaceAll(setting.Name, "-", "_")
	if setting.Unit != "" {
		name += "_" + setting.Unit
	}
	switch v := setting.Value.(flag.Getter).Get().(type) {
	case time.Duration:
		return name + "_seconds", v.Seconds()
	case fmt.Stringer:
		return name, v.String()
	case float64:
		return name, max(v, 0) // it may be as negative as can be
	default:
		return name, v
	}
}

// MarshalJSON writes the settings in the order of the page. A map has none.
func (s Settings) MarshalJSON() ([]byte, error) {
	var fields []string
	for setting := range keepersettings.All(new(keepalive.Config)) {
		name, _ := shown(setting)
		value, err := json.Marshal(s[name])
		if err != nil {
			return nil, err
		}
		fields = append(fields, fmt.Sprintf("%q:%s", name, value))
	}
	return []byte("{" + strings.Join(fields, ",") + "}"), nil
}

// textOf is the sentence about a reason, without the name of its package.
func textOf(r keepalive.Reason) string {
	return strings.TrimPrefix(r.Error(), "keepalive: ")
}
