package pictures

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/png"
	"time"
)

const signature = "\x89PNG\r\n\x1a\n"

// moving is an animated PNG, for ever: each picture stays until the time of the next one, the last one until
// end. A picture has only what differs from the one before it.
func moving(pictures []*image.Paletted, at []time.Duration, end time.Duration) ([]byte, error) {
	var head, body bytes.Buffer
	frames, sequence := uint32(0), uint32(0)
	for i, picture := range pictures {
		shown, next := picture, i+1
		if i > 0 {
			shown = difference(pictures[i-1], picture)
		}
		until := end
		if next < len(pictures) {
			until = at[next]
		}
		control := binary.BigEndian.AppendUint32(nil, sequence)
		for _, v := range []int{shown.Rect.Dx(), shown.Rect.Dy(), shown.Rect.Min.X, shown.Rect.Min.Y} {
			control = binary.BigEndian.AppendUint32(control, uint32(v))
		}
		control = binary.BigEndian.AppendUint16(control, uint16((until - at[i]).Milliseconds()))
		control = binary.BigEndian.AppendUint16(control, 1000)
		chunk(&body, "fcTL", append(control, 0, 1)) // it stays, and the next one is drawn over it
		frames++
		sequence++
		var file bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, shown); err != nil {
			return nil, err
		}
		for rest := file.Bytes()[len(signature):]; len(rest) > 0; {
			kind, data := string(rest[4:8]), rest[8:8+binary.BigEndian.Uint32(rest)]
			rest = rest[12+len(data):]
			switch {
			case kind == "IDAT" && i > 0:
				chunk(&body, "fdAT", append(binary.BigEndian.AppendUint32(nil, sequence), data...))
				sequence++
			case kind == "IDAT":
				chunk(&body, kind, data)
			case kind != "IEND" && i == 0:
				chunk(&head, kind, data)
			}
		}
	}
	all := bytes.NewBufferString(signature)
	const header = 12 + 13
	all.Write(head.Next(header))
	chunk(all, "acTL", binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, frames), 0))
	all.Write(head.Bytes())
	all.Write(body.Bytes())
	chunk(all, "IEND", nil)
	return all.Bytes(), nil
}

func chunk(to *bytes.Buffer, kind string, data []byte) {
	framed := append([]byte(kind), data...)
	to.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
	to.Write(framed)
	to.Write(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(framed)))
}

// difference is the smallest part of a picture with all that has changed, transparent elsewhere.
func difference(before, after *image.Paletted) *image.Paletted {
	changed := image.Rectangle{}
	only := image.NewPaletted(after.Rect, after.Palette)
	for i, index := range after.Pix {
		if index != before.Pix[i] {
			only.Pix[i] = index
			x, y := i%after.Stride, i/after.Stride
			changed = changed.Union(image.Rect(x, y, x+1, y+1))
		}
	}
	if changed.Empty() {
		changed = image.Rect(0, 0, 1, 1)
	}
	return only.SubImage(changed).(*image.Paletted)
}
