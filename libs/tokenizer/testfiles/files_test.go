package testfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

func TestTheFilesAreThePinnedOnes(t *testing.T) {
	for line := range strings.Lines(pins) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		path, err := Path(t.Context(), fields[0])
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != fields[1] {
			t.Errorf("%s has sha256 %s, want %s", path, got, fields[1])
		}
	}
}

func TestAnUnknownFileIsAnError(t *testing.T) {
	if path, err := Path(t.Context(), "gpt9.json"); err == nil || !strings.Contains(err.Error(), "llama3_1.json") {
		t.Errorf("gpt9.json is at %q, %v; want an error that lists what there is", path, err)
	}
}
