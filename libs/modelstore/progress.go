package modelstore

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Progress is told about work that takes a while, one task after the other. Its
// methods may be called by different goroutines, never at the same time.
type Progress interface {
	// Start begins a task of about totalBytes.
	Start(task string, totalBytes int64)
	// Advance says how many bytes of it are done.
	Advance(doneBytes int64)
	// Finish ends it.
	Finish(ok bool)
}

// NewProgress shows progress on w: a bar on a terminal, else plain lines.
func NewProgress(w *os.File) Progress {
	info, err := w.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &renderer{w: w, terminal: terminal}
}

type silent struct{}

func (silent) Start(string, int64) {}
func (silent) Advance(int64)       {}
func (silent) Finish(bool)         {}

var (
	_ Progress = silent{}
	_ Progress = (*renderer)(nil)
)

const (
	barCells   = 20 // with the names of the catalog a line stays below 80 columns
	plainSteps = 4  // lines in between, when there is no terminal
)

// renderer writes progress as text. Write errors are ignored: a closed terminal
// must not end a download.
type renderer struct {
	w        io.Writer
	terminal bool
	task     string
	total    int64
	shown    int // the last step that was shown, of barCells·4 or plainSteps
}

func (r *renderer) Start(task string, totalBytes int64) {
	r.task, r.total, r.shown = task, max(totalBytes, 1), -1
	if !r.terminal {
		fmt.Fprintf(r.w, "%s: %d MB\n", r.task, r.total/1e6)
		r.shown = 0
	}
}

func (r *renderer) Advance(doneBytes int64) {
	done := min(doneBytes, r.total)
	steps := int64(plainSteps)
	if r.terminal {
		steps = barCells * 4
	}
	step := int(done * steps / r.total)
	if step <= r.shown {
		return
	}
	r.shown = step
	percent := done * 100 / r.total
	if !r.terminal {
		fmt.Fprintf(r.w, "%s: %d %%\n", r.task, percent)
		return
	}
	cells := int(done * barCells / r.total)
	fmt.Fprintf(r.w, "\r\x1b[K%s [%s%s] %3d %%  %d/%d MB", r.task, strings.Repeat("=", cells), strings.Repeat(" ", barCells-cells),
		percent, done/1e6, r.total/1e6)
}

func (r *renderer) Finish(ok bool) {
	outcome := "done"
	if !ok {
		outcome = "gave up"
	}
	if r.terminal {
		fmt.Fprint(r.w, "\r\x1b[K")
	}
	fmt.Fprintf(r.w, "%s: %s\n", r.task, outcome)
}
