package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/smallnest/goframe"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

func dial(t *testing.T, s *exampletest.Server) goframe.FrameConn {
	c, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return goframe.NewLengthFieldBasedFrameConn(
		goframe.EncoderConfig{ByteOrder: binary.BigEndian, LengthFieldLength: 4},
		goframe.DecoderConfig{ByteOrder: binary.BigEndian, LengthFieldLength: 4, InitialBytesToStrip: 4},
		c)
}

// say sends a frame and reads the answer. It does not answer a question of the server
// meanwhile.
func say(c goframe.FrameConn, payload []byte) error {
	if err := c.WriteFrame(payload); err != nil {
		return err
	}
	for {
		answer, err := c.ReadFrame()
		if err == nil && len(answer) == 0 {
			continue
		}
		if err == nil && !bytes.Equal(answer, payload) {
			err = fmt.Errorf("got %q", answer)
		}
		return err
	}
}

// goodbye reads until the last frame, and requires a question before it.
func goodbye(c goframe.FrameConn, want string) func() error {
	return func() error {
		asked := false
		for {
			frame, err := c.ReadFrame()
			switch {
			case err != nil:
				return fmt.Errorf("without a word: %w", err)
			case len(frame) == 0:
				asked = true
			case string(frame) != want || !asked:
				return fmt.Errorf("asked %v, and then %q", asked, frame)
			default:
				if _, err = c.ReadFrame(); !errors.Is(err, io.EOF) {
					return fmt.Errorf("not the end: %w", err)
				}
				return nil
			}
		}
	}
}

func TestWhoTalksStaysAndWhoDoesNotAnswerGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := dial(t, s)
	last := exampletest.Talk(t, func() error { return say(c, []byte("hello")) })
	exampletest.Gone(t, last, goodbye(c, "no_answer"))
	s.Logs(t, "reason=no_answer")
}

func TestWhoAnswersStays(t *testing.T) {
	t.Parallel()
	c := dial(t, exampletest.Serve(t, serve))
	for range 6 { // three timeouts
		asked, err := c.ReadFrame()
		require.NoError(t, err)
		require.Empty(t, asked)
		require.NoError(t, c.WriteFrame(nil))
	}
	require.NoError(t, say(c, []byte("still here")))
}

func TestBytesOfAFrameAreNoLife(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	last := time.Now()
	c, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer c.Close()
	exampletest.Trickle(t, c, "\x00\x00\x40\x00")
	exampletest.Gone(t, last, exampletest.EndOrReset(c))
}

func TestFramesOfAllSizes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := dial(t, s)
	for _, n := range []int{1, 255, 256, 1000, maxFrame} {
		require.NoError(t, say(c, bytes.Repeat([]byte("x"), n)), "%d bytes", n)
	}
	require.NoError(t, c.WriteFrame(bytes.Repeat([]byte("x"), maxFrame+1)))
	require.Error(t, func() error { _, err := c.ReadFrame(); return err }())
	s.Logs(t, "a frame of 16385 bytes: must be at most 16384")
}

func TestAServerThatStopsSaysSo(t *testing.T) {
	t.Parallel()
	outer := t // its end closes the connection
	var c goframe.FrameConn
	t.Run("server", func(t *testing.T) {
		c = dial(outer, exampletest.Serve(t, serve))
		require.NoError(t, say(c, []byte("hello")))
	})
	last, err := c.ReadFrame()
	require.NoError(t, err)
	require.Equal(t, "drain", string(last))
}

// The same bytes read with io.ReadFull, as a program with a goroutine per connection
// would.
func FuzzNext(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 2, 'h', 'i', 0, 0, 0, 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 'x'})
	f.Add(append(frame(make([]byte, maxFrame)), frame(nil)...))
	f.Fuzz(func(t *testing.T, buf []byte) {
		r := bytes.NewReader(buf)
		for rest := buf; ; {
			payload, after, err := next(rest)
			var n uint32
			complete := binary.Read(r, binary.BigEndian, &n) == nil
			require.Equal(t, complete && n > maxFrame, err != nil)
			if err != nil {
				return
			}
			want := make([]byte, n)
			if complete {
				_, err = io.ReadFull(r, want)
				complete = err == nil
			}
			require.Equal(t, complete, after != nil)
			if !complete {
				return
			}
			require.Equal(t, want, append([]byte{}, payload...))
			require.Equal(t, r.Len(), len(after))
			rest = after
		}
	})
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, serve)
}
