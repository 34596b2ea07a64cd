package normalize

import (
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

func TestNewNamesTheStepThatIsWrong(t *testing.T) {
	for want, s := range map[string]spec.Step{
		"normalizer: BertNormalizer: this normalizer is not supported":                              {Type: "BertNormalizer"},
		"normalizer: Replace: the pattern is empty":                                                 {Type: "Replace"},
		"normalizer: Replace: pattern \"a|b\": " + errPattern.Error():                               {Type: "Replace", Pattern: "a|b", Regex: true},
		"normalizer: Replace: pattern \"\\\\w+\": " + errPattern.Error():                            {Type: "Replace", Pattern: `\w+`, Regex: true},
		"normalizer: Precompiled: the charsmap has 3 bytes and no header":                           {Type: "Precompiled", Charsmap: []byte{1, 2, 3}},
		"normalizer: Precompiled: the charsmap says that its array has 8 bytes, and has 1":          {Type: "Precompiled", Charsmap: []byte{8, 0, 0, 0, 1}},
		"normalizer: Precompiled: the array of the charsmap is empty":                               {Type: "Precompiled", Charsmap: []byte{0, 0, 0, 0}},
		"normalizer: Precompiled: the texts of the charsmap are not UTF-8":                          {Type: "Precompiled", Charsmap: []byte{4, 0, 0, 0, 0, 0, 0, 0, 0xFF}},
		"normalizer: Precompiled: the charsmap says that its array has 4294967292 bytes, and has 0": {Type: "Precompiled", Charsmap: []byte{255, 255, 255, 255}},
	} {
		s.Path = "normalizer"
		if _, err := New([]spec.Step{s}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAChainWithoutStepsCopies(t *testing.T) {
	for _, steps := range [][]spec.Step{nil, {{Type: "Prepend"}}} {
		c, err := New(steps)
		if err != nil {
			t.Fatal(err)
		}
		if !c.Empty() || !c.Same("é") || string(c.Append([]byte("a"), "é")) != "aé" {
			t.Errorf("%v does something", steps)
		}
		checkAligned(t, c, "aé")
	}
}

func TestSameKnowsCommonText(t *testing.T) {
	c, err := New([]spec.Step{{Type: "NFC"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range benchTexts {
		want := name != "decomposed" && name != "marks" && name != "jamo"
		if got := c.Same(text); got != want {
			t.Errorf("%s: Same is %v", name, got)
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	var s scratch
	for name, steps := range answeredSteps(t) {
		c, err := New(steps)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("Tie\u0302\u0301ng  Vie\u0323\u0302t ﬁ\r\nABC ", 10)
		dst := make([]byte, 0, 10*len(text))
		if n := testing.AllocsPerRun(100, func() { dst = c.append(dst[:0], text, &s); c.Same(text) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
