package main

import (
	"encoding/xml"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Texts must be inside the picture with the widest of fonts, and must not overlap.
func TestPlots_WideFont_HaveRoom(t *testing.T) {
	const widest = 0.8 // of its size, the mean width of a letter: more than that of a bold and wide font
	var all []runs
	for _, s := range scenarios() {
		run := runs{s, make(map[string][]figures)}
		for i, key := range s.contenders {
			rate := float64(1000*(i/3+1)) + float64(s.load.callers)
			run.figures[key] = []figures{{rate: 1e3 * rate, p99: 1e6, serverCPU: rate}}
		}
		all = append(all, run)
	}
	for _, f := range plots {
		t.Run(f.file, func(t *testing.T) {
			lines := f.series(all)
			var picture struct {
				Texts []struct {
					X         float64 `xml:"x,attr"`
					Y         float64 `xml:"y,attr"`
					Anchor    anchor  `xml:"text-anchor,attr"`
					Size      float64 `xml:"font-size,attr"`
					Transform string  `xml:"transform,attr"`
					Text      string  `xml:",chardata"`
				} `xml:"text"`
			}
			require.NoError(t, xml.Unmarshal([]byte(f.draw(lines).String()), &picture))
			titles := make(map[string]float64)
			for _, element := range picture.Texts {
				size := max(element.Size, fontSize)
				width := widest * size * float64(len([]rune(element.Text)))
				before := map[anchor]float64{atStart: 0, atHalf: width / 2, atEnd: width}[element.Anchor]
				from, to, end := element.X-before, element.X+width-before, float64(plotWidth)
				if element.Transform != "" {
					from, to, end = element.Y-width/2, element.Y+width/2, plotHeight
				}
				require.GreaterOrEqual(t, from, 0.0, element.Text)
				require.LessOrEqual(t, to, end, element.Text)
				if element.X == labels {
					titles[element.Text] = element.Y
				}
			}
			require.Greater(t, len(picture.Texts), len(lines))
			require.Len(t, titles, len(lines))
			var places []float64
			for _, place := range titles {
				places = append(places, place)
			}
			slices.Sort(places)
			for i := 1; i < len(places); i++ {
				require.GreaterOrEqual(t, places[i]-places[i-1], float64(fontSize))
			}
			require.Greater(t, places[0], float64(top)-labelStep)
		})
	}
}
