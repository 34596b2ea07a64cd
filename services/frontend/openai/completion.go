package openai

import (
	"math"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// completionMember reads one parameter of a text completion.
func (p *parser) completionMember(name string) error {
	if name == "prompt" {
		return p.readPrompt()
	}
	if known, err := p.shared(name); known {
		return err
	}
	if u, ok := unbuiltCompletion(name); ok {
		return p.onlyDefault(u)
	}
	return p.unknown(name)
}

// readPrompt reads a text, an array of token ids, or an array that holds one of the two.
func (p *parser) readPrompt() error {
	if p.dec.PeekKind() != '[' {
		return p.readPromptText("a string or an array of token ids")
	}
	var ids []uint32
	err := p.array(func(i int) (err error) {
		switch kind := p.dec.PeekKind(); {
		case i > 0 && len(ids) == 0: // the first was a whole prompt
			return severalPrompts()
		case kind == '"' && i == 0:
			return p.readPromptText("a string")
		case kind == '[' && i == 0:
			return p.readTokenIDs()
		}
		ids, err = p.appendTokenID(ids)
		return err
	})
	switch {
	case err != nil:
		return err
	case p.req.Input == nil && len(ids) == 0:
		return emptyArray("prompt")
	case len(ids) > 0:
		p.setTokenIDs(ids)
	}
	return nil
}

func (p *parser) readPromptText(want string) error {
	tok, err := p.token()
	if err != nil {
		return err
	}
	if tok.Kind() != '"' {
		return p.mistyped(want, tok)
	}
	p.req.Input = &generationv1.Request_Text{Text: tok.String()}
	return nil
}

func (p *parser) readTokenIDs() error {
	if err := p.readIDs(); err != nil {
		return err
	}
	if len(p.req.GetTokenIds().GetIds()) == 0 {
		return emptyArray("prompt[0]")
	}
	return nil
}

// readIDs reads an array of token ids; there may be none.
func (p *parser) readIDs() error {
	var ids []uint32
	err := p.array(func(int) (err error) {
		ids, err = p.appendTokenID(ids)
		return err
	})
	p.setTokenIDs(ids)
	return err
}

func (p *parser) setTokenIDs(ids []uint32) {
	p.req.Input = &generationv1.Request_TokenIds{TokenIds: &generationv1.TokenIds{Ids: ids}}
}

func (p *parser) appendTokenID(ids []uint32) ([]uint32, error) {
	tok, err := p.token()
	if err != nil {
		return nil, err
	}
	id, err := p.integerOf(tok, 0, math.MaxUint32)
	return append(ids, uint32(id)), err
}

func severalPrompts() *Error {
	return bad("unsupported_value", "prompt", "Unsupported value: 'prompt' does not support several prompts in one request yet. Send one string or one array of token ids.")
}
