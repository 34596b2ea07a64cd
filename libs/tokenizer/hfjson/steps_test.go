package hfjson

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

func TestStepsAreRead(t *testing.T) {
	for _, c := range []struct {
		family, step string
		want         spec.Step
	}{
		{"normalizer", `"NFKC"`, spec.Step{Type: "NFKC"}},
		{"normalizer", `"Nmt"`, spec.Step{Type: "Nmt"}},
		{"normalizer", `"Lowercase"`, spec.Step{Type: "Lowercase"}},
		{"normalizer", `"StripAccents"`, spec.Step{Type: "StripAccents"}},
		{"normalizer", `"ByteLevel"`, spec.Step{Type: "ByteLevel"}},
		{"normalizer", `"Prepend", "prepend": "▁"`, spec.Step{Type: "Prepend", Content: "▁"}},
		{"normalizer", `"Replace", "pattern": {"String": " "}, "content": "_"`, spec.Step{Type: "Replace", Pattern: " ", Content: "_"}},
		{"normalizer", `"Replace", "pattern": {"Regex": " {2,}"}, "content": ""`, spec.Step{Type: "Replace", Pattern: " {2,}", Regex: true}},
		{"normalizer", `"Strip", "strip_left": true, "strip_right": false`, spec.Step{Type: "Strip", Left: 1}},
		{"normalizer", `"Precompiled", "precompiled_charsmap": "AAEC"`, spec.Step{Type: "Precompiled", Charsmap: []byte{0, 1, 2}}},
		{
			"normalizer", `"BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true`,
			spec.Step{Type: "BertNormalizer", CleanText: true, ChineseChars: true, StripAccents: true, Lowercase: true},
		},
		{
			"normalizer", `"BertNormalizer", "clean_text": false, "handle_chinese_chars": false, "strip_accents": false, "lowercase": true`,
			spec.Step{Type: "BertNormalizer", Lowercase: true},
		},
		{"pre_tokenizer", `"BertPreTokenizer"`, spec.Step{Type: "BertPreTokenizer"}},
		{"pre_tokenizer", `"Whitespace"`, spec.Step{Type: "Whitespace"}},
		{"pre_tokenizer", `"WhitespaceSplit"`, spec.Step{Type: "WhitespaceSplit"}},
		{"pre_tokenizer", `"UnicodeScripts"`, spec.Step{Type: "UnicodeScripts"}},
		{"pre_tokenizer", `"ByteLevel", "add_prefix_space": true, "trim_offsets": true`, spec.Step{Type: "ByteLevel", AddPrefixSpace: true, UseRegex: true}},
		{"pre_tokenizer", `"ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false`, spec.Step{Type: "ByteLevel"}},
		{"pre_tokenizer", `"CharDelimiterSplit", "delimiter": "é"`, spec.Step{Type: "CharDelimiterSplit", Pattern: "é"}},
		{"pre_tokenizer", `"Digits", "individual_digits": true`, spec.Step{Type: "Digits", IndividualDigits: true}},
		{"pre_tokenizer", `"Punctuation"`, spec.Step{Type: "Punctuation", Behavior: "Isolated"}},
		{"pre_tokenizer", `"Punctuation", "behavior": "Contiguous"`, spec.Step{Type: "Punctuation", Behavior: "Contiguous"}},
		{
			"pre_tokenizer", `"Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "Removed", "invert": true`,
			spec.Step{Type: "Split", Pattern: `\p{N}`, Regex: true, Behavior: "Removed", Invert: true},
		},
		{
			"pre_tokenizer", `"Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false`,
			spec.Step{Type: "Metaspace", Replacement: "▁", PrependScheme: "first"},
		},
		{
			"pre_tokenizer", `"Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": true`,
			spec.Step{Type: "Metaspace", Replacement: "▁", PrependScheme: "always", Split: true},
		},
		{
			"decoder", `"Metaspace", "replacement": "▁", "add_prefix_space": false`,
			spec.Step{Type: "Metaspace", Replacement: "▁", PrependScheme: "never", Split: true},
		},
		{"decoder", `"ByteFallback"`, spec.Step{Type: "ByteFallback"}},
		{"decoder", `"Fuse"`, spec.Step{Type: "Fuse"}},
		{"decoder", `"ByteLevel", "add_prefix_space": false`, spec.Step{Type: "ByteLevel", UseRegex: true}},
		{"decoder", `"Replace", "pattern": {"String": "▁"}, "content": " "`, spec.Step{Type: "Replace", Pattern: "▁", Content: " "}},
		{"decoder", `"Strip", "content": " ", "start": 1, "stop": 2`, spec.Step{Type: "Strip", Content: " ", Left: 1, Right: 2}},
	} {
		got := decode(t, tiny, fmt.Sprintf(`"%s": {"type": %s}`, c.family, c.step))
		c.want.Path = c.family
		steps := map[string][]spec.Step{"normalizer": got.Normalizer, "pre_tokenizer": got.PreTokenizer, "decoder": got.Decoder}[c.family]
		if diff := cmp.Diff([]spec.Step{c.want}, steps); diff != "" {
			t.Errorf("%s %s:\n%s", c.family, c.step, diff)
		}
	}
}

func TestSequencesAreFlattened(t *testing.T) {
	got := decode(t, tiny, `"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"},
		{"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "Sequence", "normalizers": []}]}, {"type": "NFD"}]}`)
	want := []spec.Step{
		{Path: "normalizer.normalizers[0]", Type: "NFC"}, {Path: "normalizer.normalizers[1].normalizers[0]", Type: "Nmt"},
		{Path: "normalizer.normalizers[2]", Type: "NFD"},
	}
	if diff := cmp.Diff(want, got.Normalizer); diff != "" {
		t.Error(diff)
	}
}

func TestPostProcessorsPutTokensAround(t *testing.T) {
	template := func(single string) string {
		return fmt.Sprintf(`{"type": "TemplateProcessing", "single": [%s], "pair": [],
			"special_tokens": {"A": {"id": "A", "ids": [0, 1], "tokens": ["a", "b"]}, "B": {"id": "B", "ids": [2], "tokens": ["ab"]}}}`, single)
	}
	const a, b, sequence = `{"SpecialToken": {"id": "A", "type_id": 0}}`, `{"SpecialToken": {"id": "B", "type_id": 0}}`, `{"Sequence": {"id": "A", "type_id": 0}}`
	for _, c := range []struct {
		post           string
		prefix, suffix []uint32
	}{
		{`null`, nil, nil},
		{`{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true}`, nil, nil},
		{`{"type": "RobertaProcessing", "sep": ["x", 2], "cls": ["y", 1], "trim_offsets": true, "add_prefix_space": false}`, []uint32{1}, []uint32{2}},
		{template(b + "," + a + "," + sequence + "," + b), []uint32{2, 0, 1}, []uint32{2}},
		{`{"type": "Sequence", "processors": [` + template(a+","+sequence) + `, {"type": "BertProcessing", "sep": ["x", 1], "cls": ["y", 3]}]}`, []uint32{3, 0, 1}, []uint32{1}},
	} {
		got := decode(t, tiny, `"post_processor": `+c.post)
		if diff := cmp.Diff([][]uint32{c.prefix, c.suffix}, [][]uint32{got.Prefix, got.Suffix}); diff != "" {
			t.Errorf("%s:\n%s", c.post, diff)
		}
	}
}
