// Package bench measures this product on a user's own machines: what `switchyard bench`
// runs. It is for tools only; goroutines end with the call that started them.
package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Figure is one measured value.
type Figure struct {
	Bench string  `json:"bench"`
	Case  string  `json:"case"`
	Name  string  `json:"figure"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Report receives figures as they are measured.
type Report func(Figure)

// JSON prints one object a line.
func JSON(out io.Writer) Report {
	encoder := json.NewEncoder(out)
	return func(f Figure) { _ = encoder.Encode(f) } // a closed pipe ends the program
}

// Table prints a line per figure.
func Table(out io.Writer) Report {
	w := tabwriter.NewWriter(out, 24, 0, 2, ' ', 0)
	return func(f Figure) {
		fmt.Fprintf(w, "%s\t%s\t%.4g %s\n", f.Case, f.Name, f.Value, f.Unit)
		_ = w.Flush()
	}
}

// percentile is the value below which a share of the samples lies; it sorts them.
func percentile(samples []time.Duration, share float64) time.Duration {
	slices.Sort(samples)
	return samples[min(len(samples)-1, int(share*float64(len(samples))))]
}
