package corpus_test

import (
	"testing"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
)

// texts are the functions by their names.
func texts(t testing.TB) map[string]func(size int) (string, error) {
	c := testfiles.Corpus(t)
	return map[string]func(int) (string, error){
		"english": c.English, "code": c.Code, "languages": c.Languages, "cjk": c.CJK,
		"made up": func(size int) (string, error) { return corpus.MadeUp(40_000, size), nil },
		"letter":  func(size int) (string, error) { return corpus.OneLetter(size), nil },
		"emoji":   func(size int) (string, error) { return corpus.Emoji(size), nil },
		"spaces":  func(size int) (string, error) { return corpus.Spaces(size), nil },
		"bytes":   func(size int) (string, error) { return corpus.RandomBytes(size), nil },
	}
}

func TestTextsAreTheSameOnEveryMachine(t *testing.T) {
	want := map[string]uint64{
		"english": 0x12d4ae4be1550a07, "code": 0x53cf42ccfb07d61e, "languages": 0x787f675503d8491b, "cjk": 0xff8b55239f27513b,
		"made up": 0x7f6747e35397af, "letter": 0x8f809ef04c54838, "emoji": 0xde107325f3900b35, "spaces": 0xb1ebe5038a7039a2, "bytes": 0x55d38d112599c4b3,
	}
	for name, text := range texts(t) {
		got, err := text(100_000)
		if err != nil {
			t.Fatal(err)
		}
		if sum := xxh3.HashString(got); sum != want[name] {
			t.Errorf("%s has the hash %#x, want %#x", name, sum, want[name])
		}
	}
}

func TestTextsHaveTheSizeAskedForAndWholeCharacters(t *testing.T) {
	for name, text := range texts(t) {
		for _, size := range []int{0, 1, 1000, 1<<20 + 1} {
			got, err := text(size)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) > size || len(got) < size-utf8.UTFMax+1 {
				t.Errorf("%s of %d bytes has %d", name, size, len(got))
			}
			if name != "bytes" && !utf8.ValidString(got) {
				t.Errorf("%s of %d bytes is no UTF-8", name, size)
			}
		}
	}
}
