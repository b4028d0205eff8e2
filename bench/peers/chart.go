package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// The chart is a grid of panels, one a figure, each with a bar a system on a scale of its own from zero. Lengths are px.
const (
	chartTitle  = "Quorate and its peers"
	chartWide   = 960
	panelWide   = 460
	panelGap    = 24
	headHigh    = 58 // title and subtitle
	footHigh    = 22
	titleHigh   = 26 // of a panel
	barHigh     = 16
	barStep     = 21
	nameWide    = 162 // left of the bars
	valueWide   = 86  // right of the longest bar
	firstColour = "#0b6e4f"
	otherColour = "#9aa5b1"
	textColour  = "#1f2933"
	dimColour   = "#52606d"
)

// charted are the metrics that have a panel, in reading order.
var charted = []string{
	"W1.msgs_per_s", "W2.msgs_per_s", "W3.msgs_per_s", "W3.cpu_us", "W3.e2e_p99_ms", "W4.confirm_p99_ms", "W5.confirm_p50_ms", "W6.gap_ms", "W7.rss_mb", "W7.restart_s",
}

// svg draws the medians. The same report gives the same bytes.
func (r *report) svg() string {
	var panels []row
	for _, key := range charted {
		for _, w := range r.Rows {
			if w.Metric == key {
				panels = append(panels, w)
			}
		}
	}
	high := titleHigh + barStep*len(r.Systems) + panelGap
	lines := (len(panels) + 1) / 2
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	total := headHigh + lines*high + footHigh
	p(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" role="img">`+"\n",
		chartWide, total, chartWide, total)
	p("<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", escape(chartTitle))
	text(&b, panelGap/2, 26, "start", 18, textColour, true, chartTitle)
	text(&b, panelGap/2, 45, "start", 12, dimColour, false, fmt.Sprintf("%d B messages, servers and load on one machine with %d cores, medians of %d, %s",
		r.Size, r.Machine.Cores, r.Repeat, r.Date.Format("2006-01-02")))
	for i, w := range panels {
		r.panel(&b, panelGap/2+i%2*(panelWide+panelGap/2), headHigh+i/2*high, w)
	}
	first := "the first"
	if len(r.Systems) > 0 {
		first = r.Systems[0].Title
	}
	text(&b, panelGap/2, total-8, "start", 11, dimColour, false, "In brackets: how many times better "+first+" is. Each panel has a scale of its own. "+r.Machine.CPU+", Linux "+r.Machine.Kernel+", commit "+r.Machine.Commit)
	p("</svg>\n")
	return b.String()
}

func (r *report) panel(b *strings.Builder, x, y int, w row) {
	better := "higher is better"
	if w.Lower {
		better = "lower is better"
	}
	fmt.Fprintf(b, "<g>\n")
	text(b, x, y+14, "start", 13, textColour, true, w.Title)
	text(b, x+panelWide-panelGap/2, y+14, "end", 10, dimColour, false, better)
	longest := 0.0
	for _, c := range w.Cells {
		if c.Median != nil {
			longest = max(longest, *c.Median)
		}
	}
	for i, c := range w.Cells {
		top := y + titleHigh + i*barStep
		colour := otherColour
		if i == 0 {
			colour = firstColour
		}
		text(b, x+nameWide-8, top+12, "end", 11, textColour, i == 0, r.Systems[i].Title)
		if c.Median == nil {
			said := "–"
			if c.Faulty > 0 {
				said = "fault"
			}
			text(b, x+nameWide, top+12, "start", 11, dimColour, false, said)
			continue
		}
		wide := 1.0
		if longest > 0 {
			wide = max(wide, *c.Median/longest*float64(panelWide-panelGap/2-nameWide-valueWide))
		}
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", x+nameWide, top, wide, barHigh, colour)
		said := figure(*c.Median)
		if c.Ratio != nil {
			said += "  (" + figure(*c.Ratio) + " ×)"
		}
		text(b, x+nameWide+int(wide)+5, top+12, "start", 11, textColour, i == 0, said)
	}
	fmt.Fprintf(b, "</g>\n")
}

func text(b *strings.Builder, x, y int, anchor string, size int, colour string, bold bool, s string) {
	weight := ""
	if bold {
		weight = ` font-weight="600"`
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" font-size="%d" fill="%s"%s>%s</text>`+"\n", x, y, anchor, size, colour, weight, escape(s))
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder takes everything
	return b.String()
}
