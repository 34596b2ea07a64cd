package tokenizer_test

import (
	"os"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/hfjson"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/oracle"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
)

// TestAnswersAsTheReference compares all inputs of package oracle.
func TestAnswersAsTheReference(t *testing.T) {
	skipShort(t)
	texts := testfiles.Corpus(t)
	for _, model := range testfiles.Models() {
		t.Run(model, func(t *testing.T) {
			data := readModel(t, model)
			c := newComparison(t, model, data)
			for _, set := range sets(t, texts, data) {
				c.check(t, set)
			}
		})
	}
}

// TestVariantsAnswerAsTheReference compares tokenizers that are made up to have what the real ones have not.
func TestVariantsAnswerAsTheReference(t *testing.T) {
	skipShort(t)
	texts := testfiles.Corpus(t)
	variants, err := oracle.Variants(func(model string) ([]byte, error) { return os.ReadFile(testfiles.File(t, model)) })
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variants {
		t.Run(v.Name, func(t *testing.T) {
			c := newComparison(t, oracle.VariantsName, v.JSON)
			c.model = v.Name
			for _, set := range oracle.VariantSets(sets(t, texts, v.JSON)) {
				c.checkVariant(t, set)
			}
		})
	}
}

// skipShort leaves the long comparisons of one goroutine out where they show nothing more.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
}

func readModel(t *testing.T, model string) []byte {
	t.Helper()
	data, err := os.ReadFile(testfiles.File(t, model))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sets(t *testing.T, texts *corpus.Texts, data []byte) []oracle.Set {
	t.Helper()
	described, err := hfjson.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	out, err := oracle.Sets(texts, described)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// comparison is of a tokenizer with what was recorded for it.
type comparison struct {
	model     string
	tok       *tokenizer.Tokenizer
	recording oracle.Recording
}

func newComparison(t *testing.T, model string, data []byte) *comparison {
	t.Helper()
	tok, err := tokenizer.FromJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	recording, err := oracle.Read("testdata/exact", model)
	if err != nil {
		t.Fatal(err)
	}
	return &comparison{model, tok, recording}
}

func (c *comparison) check(t *testing.T, set oracle.Set) {
	t.Helper()
	var differ []string
	for block := range set.Blocks {
		name := oracle.BlockName(set.Name, block)
		if answer(c.tok, set, block) != c.recorded(t, name) {
			differ = append(differ, name)
		}
	}
	if len(differ) > 0 {
		t.Errorf("%d of %d blocks of %s differ; see: go run ./tools/oracle -compare %s %s",
			len(differ), set.Blocks, set.Name, c.model, differ[0])
	}
}

func (c *comparison) checkVariant(t *testing.T, set oracle.Set) {
	t.Helper()
	want := c.recorded(t, oracle.BlockName(oracle.VariantSet(c.model, set.Name), 0))
	if want == 0 { // the reference panics
		return
	}
	if answer(c.tok, set, 0) != want {
		t.Errorf("%s differs; see: go run ./tools/oracle -compare %s %s", set.Name, c.model, set.Name)
	}
}

func (c *comparison) recorded(t *testing.T, name string) uint64 {
	t.Helper()
	hash, ok := c.recording[name]
	if !ok {
		t.Fatalf("%s is not recorded: go run ./tools/oracle", name)
	}
	return hash
}

// answer is the hash of our answers for a block.
func answer(tok *tokenizer.Tokenizer, set oracle.Set, block int) uint64 {
	var hash oracle.Hash
	if set.Texts != nil {
		var tokens []sequence.Token
		for _, text := range set.Texts(block) {
			tokens = tok.Encode(tokens[:0], text, tokenizer.WithSpecial)
			hash.Tokens(tokens)
		}
		return hash.Sum()
	}
	all := set.Tokens(block)
	for _, special := range []tokenizer.Special{tokenizer.NoSpecial, tokenizer.WithSpecial} {
		for _, tokens := range all {
			hash.Text(tok.Decode(tokens, special))
		}
	}
	return hash.Sum()
}
