package oracle_test

import (
	"os"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/hfjson"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/oracle"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
)

// sets are those of a model, whose inputs are as the others' but for its own tokens.
func sets(t *testing.T) []oracle.Set {
	t.Helper()
	data, err := os.ReadFile(testfiles.File(t, "llama2"))
	if err != nil {
		t.Fatal(err)
	}
	model, err := hfjson.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	out, err := oracle.Sets(testfiles.Corpus(t), model)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A recording is of no use for other inputs: whoever changes them on purpose records anew.
func TestInputsAreTheRecordedOnes(t *testing.T) {
	want := map[string]uint64{
		"english": 0x619f9cb8153ac60d, "code": 0xbee4f0ceb7d20e3d, "cjk": 0x56097b9bb50c7d06, "languages": 0xd5c789236324aeaa,
		"vocabulary": 0xa6701018a5a2d936, "added": 0xa7da128c456c71bc, "unicode": 0x5352a94104429ab6, "emoji": 0xed0dbe4c1c1df9b4,
		"blanks": 0x9f7ce2262a1323a8, "numbers": 0xb0704f48aeba2188, "contractions": 0x46136903e9f54e00, "marks": 0x460ea2f7e6e943c,
		"runs": 0x3215430a2b1fb428, "random": 0x312b73b0d6876075, "decode": 0x2aa65e65354c1ae6, "invalid": 0x872702dde2b87e62,
	}
	for _, set := range sets(t) {
		var inputs oracle.Hash
		bytes := 0
		for block := range set.Blocks {
			if set.Tokens != nil {
				for _, tokens := range set.Tokens(block) {
					inputs.Tokens(tokens)
				}
				continue
			}
			for _, text := range set.Texts(block) {
				inputs.Text(text)
				bytes += len(text)
			}
		}
		if got := inputs.Sum(); got != want[set.Name] {
			t.Errorf("the inputs of %s (%d bytes) have the hash %#x, want %#x", set.Name, bytes, got, want[set.Name])
		}
	}
}

func TestASampleIsSomeOfASet(t *testing.T) {
	texts := func(block int) []string { return []string{string(rune('a' + block))} }
	got := oracle.Sample([]oracle.Set{{Name: "ten", Blocks: 10, Texts: texts}, {Name: "two", Blocks: 2, Texts: texts}}, 3)
	for i, want := range []string{"adg", "ab"} {
		all := ""
		for _, text := range got[i].Texts(0) {
			all += text
		}
		if got[i].Blocks != 1 || all != want {
			t.Errorf("%s has %d blocks, the first of %q; want one of %q", got[i].Name, got[i].Blocks, all, want)
		}
	}
}

func TestARecordingIsReadAsItWasWritten(t *testing.T) {
	dir := t.TempDir()
	if err := oracle.Write(dir, "m", "by a test", []string{"a/0", "b/1"}, oracle.Recording{"a/0": 1, "b/1": 1 << 63}); err != nil {
		t.Fatal(err)
	}
	got, err := oracle.Read(dir, "m")
	if err != nil || len(got) != 2 || got["a/0"] != 1 || got["b/1"] != 1<<63 {
		t.Errorf("read %v, %v", got, err)
	}
}
