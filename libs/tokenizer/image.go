package tokenizer

import (
	"encoding/json"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/bpe"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/image"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/normalize"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/split"
)

// imageVersion changes with the form of an image, and with what is built from a file.
const imageVersion = 2

// imageHeader holds what of a tokenizer is no slice.
type imageHeader struct {
	marks          marks
	marksEarly     bool
	decoder        decoder
	bos            sequence.Token
	hasBOS, addBOS bool
}

// imageToken is an added token but for its content.
type imageToken struct {
	id    uint32
	flags uint8
}

// Flags of an imageToken.
const (
	flagSpecial = 1 << iota
	flagSingleWord
	flagLStrip
	flagRStrip
	flagNormalized
)

// image is the tokenizer as a file; ok is false for one of a kind that is built as quickly.
func (t *Tokenizer) image() (data []byte, ok bool, err error) {
	if t.bpe == nil {
		return nil, false, nil
	}
	steps, err := json.Marshal(t.normalizerSteps)
	if err != nil {
		return nil, false, err
	}
	w := image.NewWriter(imageVersion)
	image.PutOne(w, imageHeader{t.marks, t.marksEarly, t.decoder, t.bos, t.hasBOS, t.addBOS})
	image.Put(w, t.ends)
	image.PutString(w, t.vocab.texts.All)
	image.Put(w, t.vocab.texts.Ends)
	image.Put(w, t.vocab.kinds)
	image.Put(w, steps)
	putAdded(w, t.addedTokens)
	t.outer.PutImage(w)
	t.pieces.PutImage(w)
	t.bpe.PutImage(w)
	return w.Bytes(), true, nil
}

// fromImage is the tokenizer of an image, which it aliases.
func fromImage(data []byte) (*Tokenizer, error) {
	r, err := image.Read(data, imageVersion)
	if err != nil {
		return nil, err
	}
	t := newTokenizer()
	h := image.GetOne[imageHeader](r)
	t.marks, t.marksEarly, t.decoder, t.bos, t.hasBOS, t.addBOS = h.marks, h.marksEarly, h.decoder, h.bos, h.hasBOS, h.addBOS
	t.ends = image.Get[sequence.Token](r)
	t.vocab.texts.All = image.GetString(r)
	t.vocab.texts.Ends, t.vocab.kinds = image.Get[uint32](r), image.Get[kind](r)
	steps := image.Get[byte](r)
	t.addedTokens = getAdded(r)
	t.outer, t.pieces = split.GetImage(r), split.GetImage(r)
	t.bpe = bpe.GetImage(r, t.vocab.texts)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(steps, &t.normalizerSteps); err != nil {
		return nil, fmt.Errorf("image: normalizer: %w", err)
	}
	if t.normalizer, err = normalize.New(t.normalizerSteps); err != nil {
		return nil, err
	}
	t.matchers()
	t.remember()
	return t, nil
}

func putAdded(w *image.Writer, added []spec.AddedToken) {
	var all []byte
	ends, tokens := make([]uint32, len(added)), make([]imageToken, len(added))
	for i, a := range added {
		all = append(all, a.Content...)
		ends[i] = uint32(len(all))
		tokens[i].id = a.ID
		for flag, is := range map[uint8]bool{
			flagSpecial: a.Special, flagSingleWord: a.SingleWord, flagLStrip: a.LStrip, flagRStrip: a.RStrip, flagNormalized: a.Normalized,
		} {
			if is {
				tokens[i].flags |= flag
			}
		}
	}
	image.Put(w, all)
	image.Put(w, ends)
	image.Put(w, tokens)
}

func getAdded(r *image.Reader) []spec.AddedToken {
	all, ends, tokens := image.GetString(r), image.Get[uint32](r), image.Get[imageToken](r)
	added := make([]spec.AddedToken, min(len(ends), len(tokens)))
	start := uint32(0)
	for i := range added {
		f := tokens[i].flags
		added[i] = spec.AddedToken{
			ID: tokens[i].id, Content: all[start:ends[i]], Special: f&flagSpecial != 0, SingleWord: f&flagSingleWord != 0,
			LStrip: f&flagLStrip != 0, RStrip: f&flagRStrip != 0, Normalized: f&flagNormalized != 0,
		}
		start = ends[i]
	}
	return added
}
