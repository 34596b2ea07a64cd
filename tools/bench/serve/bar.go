package serve

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Bar shows how far a run has come: a bar on a terminal, else a line each quarter.
type Bar struct {
	w        io.Writer
	terminal bool
	quarter  int
	shown    bool
}

// NewBar shows progress on w.
func NewBar(w *os.File) *Bar {
	info, err := w.Stat()
	return &Bar{w: w, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// Show is for Config.Progress.
func (b *Bar) Show(p Progress) {
	task := "measuring"
	if p.Warming {
		task = "warming up"
	}
	text := fmt.Sprintf("%d requests in %.0f s", p.Ended, p.Elapsed.Seconds())
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	if b.terminal {
		const cells = 20
		done := min(int(p.Share*cells), cells)
		b.shown = true
		fmt.Fprintf(b.w, "\r\x1b[K%s [%s%s] %3.0f %%  %s", task, strings.Repeat("=", done), strings.Repeat(" ", cells-done), 100*p.Share, text)
		return
	}
	if quarter := int(p.Share * 4); !p.Warming && quarter > b.quarter {
		b.quarter = quarter
		fmt.Fprintf(b.w, "%s: %.0f %%, %s\n", task, 100*p.Share, text)
	}
}

// Clear takes the bar away.
func (b *Bar) Clear() {
	if b.shown {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}
