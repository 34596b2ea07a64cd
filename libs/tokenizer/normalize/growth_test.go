package normalize

import (
	"slices"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

func TestAChainThatCouldMakeAFloodIsRefused(t *testing.T) {
	ten := spec.Step{Path: "normalizer", Type: "Replace", Pattern: "a", Content: strings.Repeat("a", 10)}
	for name, c := range map[string]struct {
		steps []spec.Step
		want  string // "" is accepted
	}{
		"three tens":         {slices.Repeat([]spec.Step{ten}, 3), ""},
		"four tens":          {slices.Repeat([]spec.Step{ten}, 4), "could make 10000 bytes of one, want at most 1024"},
		"a long content":     {[]spec.Step{{Type: "Replace", Pattern: "a", Content: strings.Repeat("b", 1<<30>>10)}}, "want at most 1024"},
		"a long prepend":     {[]spec.Step{{Type: "Prepend", Content: strings.Repeat("b", 2000)}}, "prepend has 2000 bytes"},
		"forms and a letter": {[]spec.Step{{Type: "NFKC"}, {Type: "Lowercase"}, {Type: "Replace", Pattern: " ", Content: "▁"}}, ""},
	} {
		_, err := New(c.steps)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
