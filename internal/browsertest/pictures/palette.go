// Package pictures renders the pictures of the documentation, by `make pictures`: pages in a real browser,
// with real connections behind them, and a chart of what the benchmarks have written.
package pictures

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"slices"
)

const (
	colors     = 256
	background = 40 // of the most frequent colors: they stay exact, whatever is near them
)

// decode returns the pixels of a PNG.
func decode(picture []byte) (*image.RGBA, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	pixels := image.NewRGBA(decoded.Bounds())
	draw.Draw(pixels, pixels.Rect, decoded, image.Point{}, draw.Src)
	return pixels, nil
}

// each yields the colors of all pixels of an opaque picture, from left to right and from top to bottom.
func each(picture *image.RGBA) func(yield func(color.RGBA) bool) {
	return func(yield func(color.RGBA) bool) {
		for p := picture.Pix; len(p) > 0; p = p[4:] {
			if !yield(color.RGBA{p[0], p[1], p[2], p[3]}) {
				return
			}
		}
	}
}

// reduce gives pictures one palette: first the transparent color, then frequent ones. Any color of a
// picture is at most a little apart from one of them: by as much as leaves room for all.
func reduce(pictures []*image.RGBA) []*image.Paletted {
	count := make(map[color.RGBA]int)
	for _, picture := range pictures {
		for c := range each(picture) {
			count[c]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	palette := color.Palette{}
	for apart := 0; len(palette) == 0; apart = apart*5/4 + 1 {
		palette = spread(frequent, apart)
	}
	indexes := make(map[color.RGBA]uint8, len(frequent))
	for _, c := range frequent {
		indexes[c] = uint8(palette.Index(c))
	}
	var reduced []*image.Paletted
	for _, picture := range pictures {
		to := image.NewPaletted(picture.Rect, palette)
		i := 0
		for c := range each(picture) {
			to.Pix[i] = indexes[c]
			i++
		}
		reduced = append(reduced, to)
	}
	return reduced
}

// spread returns a palette of colors that differ by more than a squared distance, or nothing if they are
// too many.
func spread(frequent []color.RGBA, apart int) color.Palette {
	palette, chosen := color.Palette{color.RGBA{}}, []color.RGBA(nil)
	for _, c := range frequent {
		near := func(o color.RGBA) bool {
			r, g, b := int(c.R)-int(o.R), int(c.G)-int(o.G), int(c.B)-int(o.B)
			return r*r+g*g+b*b <= apart
		}
		if len(chosen) >= background && slices.ContainsFunc(chosen, near) {
			continue
		}
		if len(palette) == colors {
			return nil
		}
		palette, chosen = append(palette, c), append(chosen, c)
	}
	return palette
}
