package engine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestATraceIsCheckedBeforeItIsKept(t *testing.T) {
	long := strings.Repeat("a", engine.MaxTrace)
	for _, good := range []map[string]string{
		nil,
		{},
		{engine.Traceparent: parent},
		{engine.Traceparent: parent, engine.Tracestate: "congo=t61rcWkgMzE,rojo=1", engine.Baggage: "user=7;secret,b=%20"},
		{engine.Traceparent: "cc" + parent[2:] + "-what-is-new"},
		{engine.Baggage: long[:engine.MaxTrace-len(engine.Baggage)]},
	} {
		require.NoError(t, engine.Task{Topic: "t", ID: "1", Trace: good}.Check(), good)
	}
	for want, bad := range map[string]map[string]string{
		`trace with the name "b3", must be traceparent, tracestate or baggage`:   {"b3": "1"},
		`trace with the name "Traceparent", must be`:                             {"Traceparent": parent},
		`traceparent "", must be as in W3C Trace Context`:                        {engine.Traceparent: ""},
		`traceparent "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-"`: {engine.Traceparent: parent + "-"},
		`traceparent "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x"`: {engine.Traceparent: "01" + parent[2:] + "x"},
		`traceparent "ff-`: {engine.Traceparent: "ff" + parent[2:]},
		`traceparent "00-0AF7651916cd43dd8448eb211c80319c`:                      {engine.Traceparent: strings.Replace(parent, "af", "AF", 1)},
		`traceparent "00-00000000000000000000000000000000-b7ad6b7169203331-01"`: {engine.Traceparent: "00-" + strings.Repeat("0", 32) + parent[35:]},
		`traceparent "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"`: {engine.Traceparent: parent[:36] + strings.Repeat("0", 16) + "-01"},
		`traceparent "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`: {engine.Traceparent: "00_" + parent[3:]},
		`tracestate "a=1\n", must be printable ASCII`:                           {engine.Tracestate: "a=1\n"},
		`baggage "ü", must be printable ASCII`:                                  {engine.Baggage: "ü"},
		`trace has 2049 bytes, must have at most 2048`:                          {engine.Baggage: long[:engine.MaxTrace+1-len(engine.Baggage)]},
	} {
		err := engine.Task{Topic: "t", ID: "1", Trace: bad}.Check()
		require.ErrorIs(t, err, engine.ErrArgument, want)
		require.ErrorContains(t, err, want)
	}
}
