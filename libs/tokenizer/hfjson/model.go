package hfjson

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// model is the "model" of a file: its large members, the others as they stand, and what they make
// once all of them are there.
type model struct {
	vocab  *vocabulary
	pieces []spec.Piece
	merges []spec.Merge
	// hasMerges tells an empty list from none.
	hasMerges bool
	// early are merges that came before the vocabulary.
	early   jsontext.Value
	options object
}

func (m *model) read(dec *jsontext.Decoder) error {
	m.options.path = "model"
	err := members(dec, "model", func(name string) error { return m.member(dec, name) })
	if err != nil || m.early == nil {
		return err
	}
	return m.readMerges(jsontext.NewDecoder(bytes.NewBuffer(m.early)))
}

func (m *model) member(dec *jsontext.Decoder, name string) (err error) {
	switch {
	case name == "vocab" && dec.PeekKind() == '[':
		m.pieces, err = readPieces(dec, "model.vocab")
		return err
	case name == "vocab":
		m.vocab, err = readVocabulary(dec, "model.vocab")
		return err
	case name == "merges" && m.vocab != nil:
		return m.readMerges(dec)
	}
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if name == "merges" {
		m.early = value.Clone()
		return nil
	}
	m.options.members = append(m.options.members, objectMember{name: name, value: value.Clone()})
	return nil
}

// resolve makes the model of the tokenizer, and gives what its added tokens are looked up in.
func (m *model) resolve(out *spec.Tokenizer) (*vocabulary, error) {
	if m.options.path == "" {
		return nil, fmt.Errorf("model is missing")
	}
	kind := "BPE" // old files do not name it
	if _, ok := m.options.value("type"); ok || m.pieces != nil {
		kind = m.options.text("type")
	}
	switch {
	case m.options.err != nil:
		return nil, m.options.err
	case kind == "BPE":
		return m.vocab, m.bpe(out)
	case kind == "Unigram":
		return m.unigram(out)
	}
	return nil, fmt.Errorf(`model.type is %q, want "BPE" or "Unigram"`, clip(kind))
}
