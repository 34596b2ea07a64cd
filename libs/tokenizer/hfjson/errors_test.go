package hfjson

import (
	"runtime"
	"strings"
	"testing"
)

func TestWhatCannotBeExactIsAnErrorThatNamesThePlace(t *testing.T) {
	bpe := func(members string) string {
		return `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [], ` + members + `}}`
	}
	with := func(members string) string { return "{" + tiny + ", " + members + "}" }
	added := func(members string) string { return with(`"added_tokens": [{` + members + `, ` + addedFlags + `}]`) }
	for _, c := range []struct {
		file string
		want []string
	}{
		{``, []string{"EOF"}},
		{`[]`, []string{"the file", "want {"}},
		{`{`, []string{"EOF"}},
		{`{}`, []string{"model is missing"}},
		{`{"model": 1}`, []string{"model is", "want {"}},
		{`{"model": null}`, []string{"model is", "want {"}},
		{`{` + tiny + `} x`, []string{"after"}},
		{with(`"model": {}`), []string{"model is there twice"}},
		{with(`"special": 1`), []string{`"special" is unknown`}},
		{with(`"version": "2.0"`), []string{"version", `"2.0"`, `"1.0"`}},
		{`{"model": {"type": "WordPiece", "vocab": {"a": 0}}}`, []string{"model.type", `"WordPiece"`, `"BPE"`, `"Unigram"`}},
		{`{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}`, []string{"model.type", `"WordLevel"`}},
		{`{"model": {"type": "BPE", "merges": []}}`, []string{"model.merges", "model.vocab"}},
		{`{"model": {"type": "BPE", "vocab": {}}}`, []string{"model.merges is missing"}},
		{`{"model": {"type": "BPE", "vocab": [["a", 0]], "merges": []}}`, []string{"model.vocab"}},
		{`{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}`, []string{`model.vocab["a"]`, "-1"}},
		{`{"model": {"type": "BPE", "vocab": {"a": 1.0}, "merges": []}}`, []string{`model.vocab["a"]`, "1.0"}},
		{`{"model": {"type": "BPE", "vocab": {"a": 4194304}, "merges": []}}`, []string{`model.vocab["a"]`, "4194304", "below 4194304"}},
		{`{"model": {"type": "BPE", "vocab": {"a": 4194303}, "merges": []}}`, []string{"model.vocab", "4194303"}},
		{`{"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []}}`, []string{`model.vocab has "a" twice`}},
		{`{"model": {"type": "BPE", "vocab": {"a": 1, "b": 1}, "merges": []}}`, []string{"id 1", `"a"`, `"b"`}},
		{`{"model": {"type": "BPE", "vocab": {"a": 0, "ab": 1}, "merges": ["a b"]}}`, []string{"model.merges[0]", `"b" is not in model.vocab`}},
		{`{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]]}}`, []string{"model.merges[0]", `"ab" is not in`}},
		{`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b c"]}}`, []string{"model.merges[0]", `"a b c"`, "two tokens"}},
		{`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["ab"]}}`, []string{"model.merges[0]", "two tokens"}},
		{`{"model": {"type": "BPE", "vocab": {"a": 0, "aa": 1}, "merges": ["a a", ["a", "a"]]}}`, []string{"model.merges[1]"}},
		{`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}}`, []string{"model.merges[0]", "pair"}},
		{`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "a", "a"]]}}`, []string{"model.merges[0]", "pair"}},
		{`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", 1]]}}`, []string{"model.merges[0]", "pair"}},
		{`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [7]}}`, []string{"model.merges[0]", "7"}},
		{bpe(`"dropout": 0.1`), []string{"model.dropout", "0.1"}},
		{bpe(`"continuing_subword_prefix": "##"`), []string{"model.continuing_subword_prefix", "##"}},
		{bpe(`"end_of_word_suffix": "</w>"`), []string{"model.end_of_word_suffix", "</w>"}},
		{bpe(`"unk_token": "<unk>"`), []string{"model.unk_token", `"<unk>"`, "not in model.vocab"}},
		{bpe(`"fuse_unk": 1`), []string{"model.fuse_unk", "true or false"}},
		{bpe(`"novelty": true`), []string{"model.novelty", "not known"}},
		{`{"model": {"type": "Unigram"}}`, []string{"model.vocab is missing"}},
		{`{"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 1}}`, []string{"model.unk_id is 1"}},
		{`{"model": {"type": "Unigram", "vocab": [["a", 0], ["b"]]}}`, []string{"model.vocab[1]", "score"}},
		{`{"model": {"type": "Unigram", "vocab": [["a", 0, 1]]}}`, []string{"model.vocab[0]", "score"}},
		{`{"model": {"type": "Unigram", "vocab": [["a", 1e999]]}}`, []string{"model.vocab[0]", "range"}},
		{added(`"id": 7, "content": "x"`), []string{"added_tokens[0].id is 7", "want 4"}},
		{added(`"id": 1, "content": "a"`), []string{"added_tokens[0].id is 1", `model.vocab has "a" at 0`}},
		{added(`"id": 4`), []string{"added_tokens[0].content is missing"}},
		{added(`"id": 4, "content": "x", "content": "y"`), []string{"duplicate", "content"}},
		{added(`"id": 4, "content": "x", "bold": true`), []string{"added_tokens[0].bold", "not known"}},
		{with(`"normalizer": {"type": "NFE"}`), []string{"normalizer.type", `"NFE"`}},
		{with(`"normalizer": {"type": "NFC", "form": 1}`), []string{"normalizer.form", "not known"}},
		{with(`"normalizer": {"type": "Replace", "pattern": {"Glob": "*"}, "content": ""}`), []string{"normalizer.pattern"}},
		{with(`"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}`), []string{"normalizer.precompiled_charsmap", "base64"}},
		{with(`"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, {"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Joined"}]}`),
			[]string{"pre_tokenizer.pretokenizers[1].behavior", `"Joined"`, `"MergedWithNext"`}},
		{with(`"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "ab"}`), []string{"pre_tokenizer.delimiter", "one character"}},
		{with(`"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": false, "prepend_scheme": "first"}`),
			[]string{"pre_tokenizer.add_prefix_space", `"first"`}},
		{with(`"decoder": {"type": "CTC"}`), []string{"decoder.type", `"CTC"`}},
		{with(`"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}`), []string{"decoder.type", `"WordPiece"`}},
		{with(`"post_processor": {"type": "BertProcessing", "cls": ["x"], "sep": ["x", 1]}`), []string{"post_processor.cls"}},
		{with(`"post_processor": {"type": "BertProcessing", "cls": ["x", 4], "sep": ["x", 1]}`), []string{"post_processor.cls is 4", "less than the vocabulary's 4"}},
		{with(`"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "S", "type_id": 0}}], "special_tokens": {}}`),
			[]string{"post_processor.single[0]", `"S"`, "special_tokens"}},
		{with(`"post_processor": {"type": "TemplateProcessing", "single": [], "special_tokens": {}}`), []string{"post_processor.single has no sequence"}},
		{with(`"normalizer": ` + strings.Repeat(`{"type": "Sequence", "normalizers": [`, 20) + strings.Repeat("]}", 20)), []string{"nested"}},
		{with(`"normalizer": ` + strings.Repeat("[", 20_000)), []string{"depth"}},
		{`{"model": {"type": "BPE", "vocab": {"\ud800": 0}, "merges": []}}`, []string{"surrogate"}},
		{"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"\xff\": 0}, \"merges\": []}}", []string{"UTF-8"}},
	} {
		got, err := Decode([]byte(c.file))
		if err == nil {
			t.Errorf("%.200s: no error, want one that mentions %q; got %+v", c.file, c.want, got)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%.200s:\n%v\nwant a mention of %q", c.file, err, part)
			}
		}
	}
}

func TestACutFileIsAnErrorWhereverItIsCut(t *testing.T) {
	whole := `{"added_tokens": [{"id": 4, "content": "x", ` + addedFlags + `}], "normalizer": {"type": "NFC"}, ` + tiny +
		`, "post_processor": {"type": "BertProcessing", "cls": ["x", 4], "sep": ["x", 1]}}`
	if _, err := Decode([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if _, err := Decode([]byte(whole[:n])); err == nil {
			t.Errorf("no error for %q", whole[:n])
		}
	}
}

func TestMemoryIsBoundedByTheFile(t *testing.T) {
	for _, file := range []string{
		`{"model": {"type": "BPE", "vocab": {"a": 4194303}, "merges": []}}`,
		`{"model": {"type": "BPE", "vocab": {"a": 65537}, "merges": []}}`,
		`{"normalizer": ` + strings.Repeat(`{"type": "Sequence", "normalizers": [`, 5000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Decode([]byte(file)) //nolint:errcheck // whatever it says
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
			t.Errorf("%.80s: %d bytes for a file of %d", file, got, len(file))
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{` + tiny + `, "added_tokens": [{"id": 4, "content": "<s>", ` + addedFlags + `}]}`))
	f.Add([]byte(`{"model": {"merges": [["a", "b"]], "vocab": {"a": 0, "b": 1, "ab": 2}}}`))
	f.Add([]byte(`{"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<u>", 0], ["\u2581", -1.5]]}}`))
	f.Add([]byte(`{` + tiny + `, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Removed"}, "decoder": {"type": "Fuse"}}`))
	f.Add([]byte(`{` + tiny + `, "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "A", "type_id": 0}},
		{"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"A": {"id": "A", "ids": [0], "tokens": ["a"]}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Decode(data)
		if err != nil {
			return
		}
		size := 0
		if got.BPE != nil {
			size = len(got.BPE.Vocab)
			for _, m := range got.BPE.Merges {
				if v := got.BPE.Vocab; v[m.Left]+v[m.Right] != v[m.Result] {
					t.Errorf("%+v joins %q and %q to %q", m, v[m.Left], v[m.Right], v[m.Result])
				}
			}
		} else {
			size = len(got.Unigram.Pieces)
		}
		for _, id := range append(got.Prefix, got.Suffix...) {
			if int(id) >= size+len(got.Added) {
				t.Errorf("token %d around a sequence, of %d and %d added", id, size, len(got.Added))
			}
		}
	})
}
