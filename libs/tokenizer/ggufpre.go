package tokenizer

import (
	"maps"
	"slices"
)

// pre is what stands behind the name of a pre-tokenizer in a GGUF file: what the
// tokenizer.json of the models that carry the name says.
type pre struct {
	patterns     []string
	gpt2         bool // GPT-2's pattern, that of a ByteLevel step, comes after them
	nfc          bool
	ignoreMerges bool
}

// Patterns by the family that brought them up.
const (
	digitPattern  = `\p{N}`
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	o200kPattern  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenPattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|` +
		`\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	deepseekPattern = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" +
		" ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)

func preTokenizers() map[string]pre {
	out := map[string]pre{}
	name := func(p pre, names ...string) {
		for _, n := range names {
			out[n] = p
		}
	}
	name(pre{gpt2: true}, "gpt-2", "mpt", "olmo", "jais", "phi-2")
	name(pre{patterns: []string{digitPattern}, gpt2: true}, "smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
	name(pre{patterns: []string{llama3Pattern}, ignoreMerges: true}, "llama3", "llama-v3", "llama-bpe")
	name(pre{patterns: []string{qwen2Pattern}, nfc: true}, "qwen2", "deepseek-r1-qwen")
	name(pre{patterns: []string{o200kPattern}}, "gpt-4o", "llama4")
	name(pre{patterns: []string{tekkenPattern}, ignoreMerges: true}, "tekken")
	name(pre{patterns: []string{`\p{N}{1,3}`, `[一-龥぀-ゟ゠-ヿ]+`, deepseekPattern}}, "deepseek-v3")
	return out
}

func preNames() []string { return slices.Sorted(maps.Keys(preTokenizers())) }
