package oracle

import (
	"strings"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
)

// proseSets are texts as people write them, in pieces of 1 KB to 256 KB.
func proseSets(texts *corpus.Texts) ([]Set, error) {
	var sets []Set
	for i, from := range []struct {
		name string
		text func(int) (string, error)
		size int
	}{
		{"english", texts.English, 1_000_000},
		{"code", texts.Code, 2_500_000},
		{"cjk", texts.CJK, 1_500_000},
		{"languages", texts.Languages, 7_000_000},
	} {
		text, err := from.text(from.size)
		if err != nil {
			return nil, err
		}
		blocks := pieces(corpus.NewRandom(uint64(100+i)), text)
		sets = append(sets, Set{Name: from.name, Blocks: len(blocks), Texts: func(block int) []string { return blocks[block] }})
	}
	return sets, nil
}

// pieces cuts a text into blocks of at least 64 KB, in pieces of 1 KB to 256 KB, short and long ones alike.
func pieces(r *corpus.Random, text string) (blocks [][]string) {
	const block = 64 << 10
	for len(text) > 0 {
		var pieces []string
		for size := 0; size < block && len(text) > 0; {
			// No floating point: not all machines round alike.
			least := 1 << (10 + r.Below(8))
			piece := corpus.Cut(text, least+r.Below(least))
			text = text[len(piece):]
			size += len(piece)
			pieces = append(pieces, piece)
		}
		blocks = append(blocks, pieces)
	}
	return blocks
}

// invalidSet is prose with damaged bytes, and noise.
func invalidSet(prose []Set) Set {
	return Set{Name: "invalid", Blocks: 10, Texts: func(block int) []string {
		r := corpus.NewRandom(uint64(200 + block))
		out := []string{corpus.RandomBytes(1 + r.Below(4000))}
		for range 200 {
			set := corpus.Pick(r, prose)
			text := corpus.Pick(r, set.Texts(r.Below(set.Blocks)))
			at := r.Below(len(text))
			out = append(out, damaged(r, text[at:min(len(text), at+1+r.Below(600))]))
		}
		return out
	}}
}

// damaged changes some bytes, takes some out and puts some in.
func damaged(r *corpus.Random, text string) string {
	b := []byte(strings.Clone(text))
	for range 1 + r.Below(20) {
		at := r.Below(len(b))
		switch r.Below(4) {
		case 0:
			b[at] = byte(r.Below(256))
		case 1:
			b[at] = corpus.Pick(r, []byte{0x80, 0xbf, 0xc0, 0xc2, 0xe0, 0xe4, 0xed, 0xf0, 0xf4, 0xf5, 0xff})
		case 2:
			if b = append(b[:at], b[at+1:]...); len(b) == 0 {
				return ""
			}
		case 3:
			b = append(b[:at:at], append([]byte("\xed\xa0\x80\xf0\x9f"), b[at:]...)...) // a surrogate, the half of an emoji
		}
	}
	return string(b)
}
