package normalize

import (
	"fmt"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// Files come from strangers, and steps that each make a text longer multiply: ten of them could
// make a gigabyte of a few bytes. So a chain is refused that could make more than this of one byte.
const (
	maxGrowth       = 1024
	maxPrependBytes = 1024
)

// growth is how many bytes a step makes of one, at most.
func growth(s *spec.Step, made step) int {
	switch s.Type {
	case "NFC", "NFD", "Lowercase":
		return 3
	case "NFKC", "NFKD":
		return 12 // U+FDFA, rounded up
	case "Replace":
		unit := len(s.Pattern)
		if s.Regex {
			unit = 1
		}
		return max(1, (len(s.Content)+unit-1)/unit)
	case "Precompiled":
		longest := 1
		for text := range strings.SplitSeq(made.(*precompiled).texts, "\x00") {
			longest = max(longest, len(text))
		}
		return longest
	}
	return 1
}

// checkGrowth adds a step to the growth of those before it.
func checkGrowth(before int, s *spec.Step, made step) (int, error) {
	if s.Type == "Prepend" && len(s.Content) > maxPrependBytes {
		return 0, fmt.Errorf("prepend has %d bytes, want at most %d", len(s.Content), maxPrependBytes)
	}
	after := before * min(growth(s, made), 2*maxGrowth)
	if after > maxGrowth {
		return 0, fmt.Errorf("with the steps before it, it could make %d bytes of one, want at most %d", after, maxGrowth)
	}
	return after, nil
}
