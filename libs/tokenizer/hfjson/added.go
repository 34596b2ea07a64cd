package hfjson

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// addedToken is an element of "added_tokens" and where it stands.
type addedToken struct {
	spec.AddedToken
	path string
}

func readAdded(dec *jsontext.Decoder) ([]addedToken, error) {
	const path = "added_tokens"
	if dec.PeekKind() == 'n' {
		_, err := dec.ReadToken()
		return nil, err
	}
	var out []addedToken
	err := elements(dec, path, func(i int, value jsontext.Value) error {
		t := addedToken{path: fmt.Sprintf("%s[%d]", path, i)}
		o := newObject(t.path, value)
		t.AddedToken = spec.AddedToken{
			ID: uint32(o.count("id")), Content: o.text("content"), Special: o.flag("special"),
			SingleWord: o.flag("single_word"), LStrip: o.flag("lstrip"), RStrip: o.flag("rstrip"), Normalized: o.flag("normalized"),
		}
		out = append(out, t)
		return o.close()
	})
	return out, err
}

// resolveAdded gives the tokenizer its added tokens, and the number of ids of both vocabularies.
//
// The reference does not take the ids that the file has: a token that the model has keeps the
// model's id, others are counted on from the number of the model's tokens. It only warns if the
// file says something else, where one of the two must be wrong: here that is an error.
func resolveAdded(out *spec.Tokenizer, added []addedToken, vocab *vocabulary) (tokens int, err error) {
	next := uint32(vocab.tokens)
	seen := make(map[string]spec.AddedToken, len(added))
	for _, t := range added {
		if t.Content == "" { // matches nothing
			continue
		}
		if first, ok := seen[t.Content]; ok {
			if first != t.AddedToken {
				return 0, fmt.Errorf("%s is %q, which is there before and differs", t.path, clip(t.Content))
			}
			continue
		}
		seen[t.Content] = t.AddedToken
		id, ok := vocab.id([]byte(t.Content))
		if !ok {
			id = next
			next++
		}
		if err := checkAdded(t, id, ok, vocab); err != nil {
			return 0, err
		}
		out.Added = append(out.Added, t.AddedToken)
	}
	return max(int(next), len(vocab.texts)), nil
}

// checkAdded compares the id that the file has with the one that the token has.
func checkAdded(t addedToken, id uint32, inModel bool, vocab *vocabulary) error {
	switch {
	case t.ID != id && inModel:
		return fmt.Errorf("%s.id is %d, but model.vocab has %q at %d", t.path, t.ID, clip(t.Content), id)
	case t.ID != id:
		return fmt.Errorf("%s.id is %d, want %d, the next one that is free", t.path, t.ID, id)
	case !inModel && int(id) < len(vocab.texts) && vocab.texts[id] != "":
		return fmt.Errorf("%s.id is %d, which model.vocab has for %q", t.path, id, clip(vocab.texts[id]))
	}
	return nil
}
