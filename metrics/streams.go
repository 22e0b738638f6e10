package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/internal/sink"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

var (
	streamsAll sink.Descs

	streamsOpen     = ofStreams("streams", "Event streams whose handlers have not returned.")
	streamsComments = ofStreams("comments_total", "Comments that were sent to quiet event streams.")
	streamsWithheld = ofStreams("withheld_total", "Comments that were due in the middle of an event, and not sent.")
	streamsSlow     = ofStreams("slow_total", "Event streams that were ended since their readers were too slow (WriteTimeout).")
	streamsFailed   = ofStreams("failed_total", "Event streams with a comment that could not be written.")
	streamsPanics   = ofStreams("panics_total", "Comments in which the program's ResponseWriter panicked.")
)

func ofStreams(name, help string) *prometheus.Desc {
	return streamsAll.Add("sse_"+name, help)
}

// NewStreams returns a collector of the figures of event streams, as heartwheel_sse_*. NewStreams panics without a Streams
// from [ssekeepalive.New].
func NewStreams(k *ssekeepalive.Streams) prometheus.Collector {
	if k.Stats().Wheel.Tick == 0 {
		panic("metrics: NewStreams needs Streams from ssekeepalive.New")
	}
	return sink.Collector(streamsAll, func(to sink.Sink) { collectStreams(to, k.Stats()) })
}

func collectStreams(to sink.Sink, s ssekeepalive.Stats) {
	to.Gauge(streamsOpen, float64(s.Streams))
	to.Counter(streamsComments, s.Comments)
	to.Counter(streamsWithheld, s.Withheld)
	to.Counter(streamsSlow, s.Slow)
	to.Counter(streamsFailed, s.Failed)
	to.Counter(streamsPanics, s.Wheel.Panics)
}
