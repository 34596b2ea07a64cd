package oracle

import (
	"maps"
	"slices"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

func step(kind string, options object) object {
	out := object{"type": kind}
	maps.Copy(out, options)
	return out
}

func sequence(members string, steps ...object) object {
	return object{"type": "Sequence", members: steps}
}

func split(pattern, behavior string, invert bool) object {
	return step("Split", object{"pattern": object{"Regex": pattern}, "behavior": behavior, "invert": invert})
}

func literal(pattern, behavior string, invert bool) object {
	return step("Split", object{"pattern": object{"String": pattern}, "behavior": behavior, "invert": invert})
}

func replace(kind, pattern, content string) object {
	return step("Replace", object{"pattern": object{kind: pattern}, "content": content})
}

// llama is the splitter that most byte-level models have a form of.
const llama = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// byteLevelVariants differ in normalizers, pre-tokenizers and added tokens.
func byteLevelVariants(model *spec.BPE, add func(string, object)) {
	levels := func(prefix, regex bool) object {
		return step("ByteLevel", object{"add_prefix_space": prefix, "trim_offsets": true, "use_regex": regex})
	}
	file := func(normalizer object, pre ...object) object {
		out := object{"model": bpe(model, nil), "added_tokens": flagged(model.Vocab, withNormalized), "decoder": levels(true, true)}
		out["pre_tokenizer"] = sequence("pretokenizers", append(pre, levels(false, false))...)
		if normalizer != nil {
			out["normalizer"] = normalizer
		}
		return out
	}
	normalizers := func(steps ...object) object { return sequence("normalizers", steps...) }
	usual := split(llama, "Isolated", false)

	add("bytes-flags", file(nil, usual))
	blanks := file(step("Lowercase", nil), usual)
	blanks["added_tokens"] = flagged(model.Vocab, withNormalized|withBlanks)
	add("bytes-flags-blanks", blanks)
	ignoring := file(nil, usual)
	ignoring["model"] = bpe(model, object{"ignore_merges": true})
	add("bytes-ignore-merges", ignoring)
	for _, form := range []string{"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"} {
		add("bytes-"+form, file(step(form, nil), usual))
	}
	add("bytes-NFD-StripAccents-Lowercase", file(normalizers(step("NFD", nil), step("StripAccents", nil), step("Lowercase", nil)), usual))
	for side, flags := range []object{{"strip_left": true, "strip_right": true}, {"strip_left": true, "strip_right": false}} {
		// The reference panics where nothing is left of a text between added tokens.
		stripped := file(normalizers(step("Strip", flags), replace("Regex", " {2,}", " ")), usual)
		delete(stripped, "added_tokens")
		add([]string{"bytes-strip", "bytes-strip-left"}[side], stripped)
	}
	add("bytes-replace", file(normalizers(replace("String", "the", "Norm"), replace("Regex", `\s+`, " "), replace("String", "\n", "")), usual))
	add("bytes-prepend", file(normalizers(step("Prepend", object{"prepend": "Norm "}), step("NFC", nil)), usual))

	for _, prefix := range []bool{false, true} {
		gpt2 := file(nil)
		gpt2["pre_tokenizer"] = levels(prefix, true)
		add(map[bool]string{false: "bytes-gpt2", true: "bytes-gpt2-prefix"}[prefix], gpt2)
	}
	add("bytes-digits", file(nil, step("Digits", object{"individual_digits": true}), usual))
	add("bytes-digits-runs", file(nil, step("Digits", object{"individual_digits": false}), step("Punctuation", object{"behavior": "Contiguous"})))
	for _, behavior := range []string{"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"} {
		add("bytes-punctuation-"+behavior, file(nil, step("Punctuation", object{"behavior": behavior})))
		for _, invert := range []bool{false, true} {
			name := behavior + map[bool]string{false: "", true: "-inverted"}[invert]
			add("bytes-split-"+name, file(nil, split(`\p{Lu}+|[ \n]`, behavior, invert)))
			add("bytes-literal-"+name, file(nil, literal(" ", behavior, invert)))
		}
	}
	for _, kind := range []string{"Whitespace", "WhitespaceSplit", "BertPreTokenizer"} {
		add("bytes-"+kind, file(nil, step(kind, nil)))
	}
	add("bytes-delimiter", file(nil, step("CharDelimiterSplit", object{"delimiter": "e"})))
}

// markedVariants have marks for blanks, with all that can become of a character without a token.
func markedVariants(model *spec.BPE, add func(string, object)) {
	decoders := sequence("decoders", replace("String", "▁", " "), step("ByteFallback", nil), step("Fuse", nil),
		step("Strip", object{"content": " ", "start": 1, "stop": 0}))
	file := func(options object) object {
		return object{
			"model": bpe(model, options), "added_tokens": flagged(model.Vocab, 0), "decoder": decoders,
			"normalizer": sequence("normalizers", step("Prepend", object{"prepend": "▁"}), replace("String", " ", "▁")),
		}
	}
	add("marks-fallback", file(object{"unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true}))
	add("marks-fallback-ignore-merges", file(object{"unk_token": "<unk>", "byte_fallback": true, "ignore_merges": true}))
	add("marks-unk", file(object{"unk_token": "<unk>", "fuse_unk": false}))
	add("marks-unk-fused", file(object{"unk_token": "<unk>", "fuse_unk": true}))
	add("marks-no-unk", file(nil))
	for i, name := range []string{"marks-blanks", "marks-normalized"} {
		with := file(object{"unk_token": "<unk>", "byte_fallback": true})
		with["added_tokens"] = flagged(model.Vocab, []int{withBlanks, withNormalized}[i])
		add(name, with)
	}
	withNFKC := file(object{"unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true})
	withNFKC["normalizer"] = sequence("normalizers", step("NFKC", nil), step("Prepend", object{"prepend": "▁"}), replace("String", " ", "▁"))
	add("marks-NFKC", withNFKC)
	metaspace := func(space object, kinds int) object {
		with := file(object{"unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true})
		delete(with, "normalizer")
		with["added_tokens"] = flagged(model.Vocab, kinds)
		with["pre_tokenizer"], with["decoder"] = space, space
		return with
	}
	spaces := metaspaces()
	for _, name := range slices.Sorted(maps.Keys(spaces)) {
		add("marks-metaspace-"+name, metaspace(spaces[name], withNormalized))
	}
	add("marks-metaspace-blanks", metaspace(spaces["always"], withBlanks|withNormalized))
}

func metaspaces() map[string]object {
	out := map[string]object{}
	for _, scheme := range []string{"always", "first", "never"} {
		for name, split := range map[string]bool{"": true, "-whole": false} {
			out[scheme+name] = step("Metaspace", object{"replacement": "▁", "prepend_scheme": scheme, "split": split})
		}
	}
	return out
}

// unigramVariants are unigram models, whose real ones are like them.
func unigramVariants(model *spec.BPE, add func(string, object)) {
	space := metaspaces()["always"]
	file := func(options object) object {
		return object{"model": unigram(model.Vocab, options), "added_tokens": flagged(model.Vocab, withNormalized), "pre_tokenizer": space, "decoder": space}
	}
	add("unigram", file(nil))
	add("unigram-fallback", file(object{"byte_fallback": true}))
	normalized := file(nil)
	normalized["normalizer"] = sequence("normalizers", step("NFKC", nil), replace("Regex", " {2,}", " "))
	normalized["pre_tokenizer"] = sequence("pretokenizers", step("WhitespaceSplit", nil), space)
	add("unigram-NFKC", normalized)
}
