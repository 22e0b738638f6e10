package pictures

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A reader of chunks gets the pictures back: each is drawn over the one before it.
func TestAMovingPictureHasAllItsFrames(t *testing.T) {
	var shot []*image.RGBA
	at := []time.Duration{0, 100 * time.Millisecond, 250 * time.Millisecond, 300 * time.Millisecond}
	for i := range at {
		p := image.NewRGBA(image.Rect(0, 0, 40, 30))
		draw.Draw(p, p.Rect, image.NewUniform(color.RGBA{10, 20, 30, 255}), image.Point{}, draw.Src)
		x := 5 + 7*min(i, 2) // nothing changes in the last one
		draw.Draw(p, image.Rect(x, 9, x+4, 12), image.NewUniform(color.RGBA{250, 0, 0, 255}), image.Point{}, draw.Src)
		shot = append(shot, p)
	}
	reduced := reduce(shot)
	file, err := moving(reduced, at, time.Second)
	require.NoError(t, err)
	first, err := png.Decode(bytes.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, shot[0].At(6, 10), color.RGBAModel.Convert(first.At(6, 10)))

	var head, control, data []byte
	var delays []uint16
	screen, frame, sequence := image.NewRGBA(shot[0].Rect), 0, uint32(0)
	finish := func() {
		if control == nil {
			return
		}
		n := func(i int) int { return int(binary.BigEndian.Uint32(control[i:])) }
		one := bytes.NewBufferString(signature)
		size := append(bytes.Clone(control[4:12]), 8, 3, 0, 0, 0)
		size[8] = head[16]
		chunk(one, "IHDR", size)
		one.Write(head[25:])
		chunk(one, "IDAT", data)
		chunk(one, "IEND", nil)
		decoded, err := png.Decode(one)
		require.NoError(t, err)
		draw.Draw(screen, decoded.Bounds().Add(image.Pt(n(12), n(16))), decoded, image.Point{}, draw.Over)
		require.Equal(t, shot[frame].Pix, screen.Pix, frame)
		delays = append(delays, binary.BigEndian.Uint16(control[20:]))
		frame, data = frame+1, nil
	}
	for rest := file[len(signature):]; len(rest) > 0; {
		kind, body := string(rest[4:8]), rest[8:8+binary.BigEndian.Uint32(rest)]
		if kind == "fcTL" || kind == "fdAT" {
			if kind == "fcTL" {
				finish()
				control = body
			}
			require.Equal(t, sequence, binary.BigEndian.Uint32(body))
			sequence++
		}
		switch kind {
		case "acTL":
			require.EqualValues(t, len(at), binary.BigEndian.Uint32(body))
		case "IHDR", "PLTE", "tRNS":
			head = append(head, rest[:12+len(body)]...)
		case "IDAT":
			data = append(data, body...)
		case "fdAT":
			data = append(data, body[4:]...)
		case "IEND":
			finish()
		}
		rest = rest[12+len(body):]
	}
	require.Equal(t, []uint16{100, 150, 50, 700}, delays)
}

// What a palette has no room for is near one of its colors.
func TestManyColorsBecomeNearOnes(t *testing.T) {
	p := image.NewRGBA(image.Rect(0, 0, 64, 64))
	for i := range 64 * 64 {
		p.SetRGBA(i%64, i/64, color.RGBA{uint8(i % 64 * 4), uint8(i / 64 * 4), 77, 255})
	}
	reduced := reduce([]*image.RGBA{p})[0]
	require.LessOrEqual(t, len(reduced.Palette), colors)
	for i := range 64 * 64 {
		was, is := p.RGBAAt(i%64, i/64), color.RGBAModel.Convert(reduced.At(i%64, i/64)).(color.RGBA)
		require.InDelta(t, was.R, is.R, 24)
		require.InDelta(t, was.G, is.G, 24)
		require.Equal(t, uint8(255), is.A)
	}
}
