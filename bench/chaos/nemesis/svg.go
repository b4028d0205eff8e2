package nemesis

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of a timeline, in the units of its view box.
const (
	svgWidth   = 1140.0
	svgLeft    = 108.0
	svgRight   = 48.0
	laneHeight = 15.0
	rateHeight = 120.0
	waitHeight = 90.0
	svgGap     = 18.0
)

// scale maps a run's seconds onto the width.
type scale struct{ seconds float64 }

func (s scale) x(t float64) float64 {
	return svgLeft + min(max(t, 0), s.seconds)/s.seconds*(svgWidth-svgLeft-svgRight)
}

// timeline draws a run: a lane for each kind of fault, whose bands go down through what clients saw: answers a second by class, the
// latency of what succeeded, and where nothing did.
func timeline(r *Result) string {
	if len(r.Timeline) == 0 {
		return ""
	}
	var lanes []string
	lane := map[string]int{}
	for _, s := range r.Faults {
		if _, ok := lane[s.Kind]; !ok && s.Skipped == "" {
			lane[s.Kind] = len(lanes)
			lanes = append(lanes, s.Kind)
		}
	}
	sc := scale{max(r.Worked, 1)}
	top := float64(len(lanes))*laneHeight + 8
	rateTop, waitTop := top, top+rateHeight+svgGap
	height := waitTop + waitHeight + 26
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="timeline of the run %s">`, svgWidth, height, html.EscapeString(r.Schedule.Kind))
	for i, kind := range lanes {
		fmt.Fprintf(&b, `<text class="lane" x="%.0f" y="%.1f">%s</text>`, svgLeft-6, float64(i)*laneHeight+11, html.EscapeString(kind))
	}
	for _, s := range r.Faults {
		if s.Skipped != "" {
			continue
		}
		x0, x1 := sc.x(s.Began), sc.x(s.Healed)
		w := max(x1-x0, 2)
		y := float64(lane[s.Kind])*laneHeight + 1
		tip := fmt.Sprintf("%s of %s (%s), %.2f to %.2f s; longest gap %.2f s, recovered %.2f s after it", s.Kind, s.Target, strings.Join(s.On, ", "), s.Began, s.Healed, s.Gap, s.Recovery)
		fmt.Fprintf(&b, `<rect class="f-%s shade" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, family(s.Kind), x0, y, w, waitTop+waitHeight-y)
		fmt.Fprintf(&b, `<rect class="f-%s band" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"><title>%s</title></rect>`,
			family(s.Kind), x0, y, w, laneHeight-3, html.EscapeString(tip))
	}
	rates(&b, r, sc, rateTop)
	waits(&b, r, sc, waitTop)
	for _, s := range r.Silences {
		fmt.Fprintf(&b, `<rect class="silence" x="%.1f" y="%.1f" width="%.1f" height="6"><title>nothing succeeded from %.2f to %.2f s</title></rect>`,
			sc.x(s.From), rateTop+rateHeight+1, max(sc.x(s.To)-sc.x(s.From), 1), s.From, s.To)
	}
	step := 10.0
	for sc.seconds/step > 15 {
		step *= 2
	}
	for t := 0.0; t <= sc.seconds; t += step {
		fmt.Fprintf(&b, `<line class="tick" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="axis" x="%.1f" y="%.1f">%.0f s</text>`,
			sc.x(t), sc.x(t), rateTop, waitTop+waitHeight+4, sc.x(t), waitTop+waitHeight+17, t)
	}
	b.WriteString("</svg>")
	return b.String()
}

// rates draws answers a second, one class upon the other.
func rates(b *strings.Builder, r *Result, sc scale, top float64) {
	most := 1.0
	for _, p := range r.Timeline {
		most = max(most, float64(p.OK+p.Refused+p.Unknown)/bucketSeconds)
	}
	base := top + rateHeight
	y := func(rate float64) float64 { return base - rate/most*(rateHeight-6) }
	for _, p := range r.Timeline {
		x, w := sc.x(p.At), sc.x(p.At+bucketSeconds)-sc.x(p.At)
		sum := 0.0
		for _, part := range []struct {
			class string
			n     int
		}{{"ok", p.OK}, {"refused", p.Refused}, {"unknown", p.Unknown}} {
			if part.n == 0 {
				continue
			}
			rate := float64(part.n) / bucketSeconds
			fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, part.class, x, y(sum+rate), max(w-0.6, 0.4), y(sum)-y(sum+rate))
			sum += rate
		}
	}
	fmt.Fprintf(b, `<text class="label" x="%.0f" y="%.1f">answers/s</text><text class="num" x="%.0f" y="%.1f">%.0f</text><text class="num" x="%.0f" y="%.1f">0</text>`,
		svgLeft-6, top+rateHeight/2, svgLeft-6, top+10, most, svgLeft-6, base)
	fmt.Fprintf(b, `<line class="base" x1="%.0f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, svgLeft, svgWidth-svgRight, base, base)
}

// waits draws the latency of what succeeded, its logarithm upwards from 1 ms to 10 s.
func waits(b *strings.Builder, r *Result, sc scale, top float64) {
	const low, high = 0.0, 4.0 // decimal logarithms of ms
	y := func(ms float64) float64 {
		l := min(max(math.Log10(max(ms, 1)), low), high)
		return top + waitHeight - (l-low)/(high-low)*waitHeight
	}
	for d := low; d <= high; d++ {
		v := math.Pow(10, d)
		name := fmt.Sprintf("%.0f ms", v)
		if v >= 1000 {
			name = fmt.Sprintf("%.0f s", v/1000)
		}
		fmt.Fprintf(b, `<line class="tick" x1="%.0f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="num" x="%.0f" y="%.1f">%s</text>`,
			svgLeft, svgWidth-svgRight, y(v), y(v), svgLeft-6, y(v)+3, name)
	}
	for _, l := range []struct {
		class string
		of    func(*Point) float64
	}{{"median", func(p *Point) float64 { return p.Median }}, {"p99", func(p *Point) float64 { return p.P99 }}} {
		var path strings.Builder
		down := false // the pen
		for i := range r.Timeline {
			p := &r.Timeline[i]
			if p.Median == 0 { // nothing succeeded: there is no latency
				down = false
				continue
			}
			op := "M"
			if down {
				op = "L"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", op, sc.x(p.At+bucketSeconds/2), y(l.of(p)))
			down = true
		}
		fmt.Fprintf(b, `<path class="%s" d="%s"/>`, l.class, path.String())
	}
	fmt.Fprintf(b, `<text class="label end" x="%.1f" y="%.1f">latency</text>`, svgWidth-svgRight+4, top+waitHeight/2)
}
