package oracle

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Recording has the hash of the reference's answer by the name of the block.
type Recording map[string]uint64

// path is where a recording lies in a folder.
func path(folder, model string) string { return filepath.Join(folder, model+".txt") }

// Read reads the recording of a model.
func Read(folder, model string) (Recording, error) {
	f, err := os.Open(path(folder, model))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := Recording{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var block string
		var hash uint64
		if _, err := fmt.Sscanf(lines.Text(), "%s %x", &block, &hash); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", f.Name(), lines.Text(), err)
		}
		out[block] = hash
	}
	return out, lines.Err()
}

// Write writes a recording with its names in an order.
func Write(folder, model, head string, names []string, r Recording) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n", head)
	for _, name := range names {
		fmt.Fprintf(&out, "%s %016x\n", name, r[name])
	}
	return os.WriteFile(path(folder, model), []byte(out.String()), 0o644)
}
