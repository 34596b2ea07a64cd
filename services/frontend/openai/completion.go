package openai

import (
	"math"

	"github.com/go-json-experiment/json/jsontext"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// completionMember reads one parameter of a text completion.
func (p *parser) completionMember(name string) error {
	if name == "prompt" { // null is no default of what is required
		return p.readPrompt()
	}
	return p.member(name, p.completionReader(name), unbuiltCompletion, p.ofChat)
}

// ofChat tells whether chats know a parameter.
func (p *parser) ofChat(name string) bool {
	_, unbuilt := unbuiltChat(name)
	return unbuilt || name == "messages" || p.chatReader(name) != nil
}

// completionReader gives what reads a parameter; nil for one that is not built.
func (p *parser) completionReader(name string) func() error {
	switch name {
	case "best_of":
		return p.setCount(&p.req.BestOf, 1, maxChoices)
	case "echo":
		return p.setFlag(&p.req.Echo)
	case "logprobs":
		return p.setOptionalCount(&p.req.Logprobs, 0, maxTextLogprobs)
	}
	return p.shared(name)
}

// prompts are the elements of an array: token ids of one prompt, or prompts.
type prompts struct {
	kind jsontext.Kind // of the first element, which the others must be, too
	ids  []uint32
	all  []*generationv1.Prompt
}

// readPrompt reads a text, an array of token ids, or an array of either.
func (p *parser) readPrompt() error {
	if p.dec.PeekKind() != '[' {
		return p.readPromptText("a string or an array of token ids, or an array of either")
	}
	var in prompts
	err := p.array(func(i int) error {
		if i == 0 {
			in.kind = p.dec.PeekKind()
		}
		return p.readPromptElement(&in, i)
	})
	switch {
	case err != nil:
		return err
	case len(in.ids) > 0:
		p.setTokenIDs(in.ids)
	case len(in.all) == 0:
		return emptyArray("prompt")
	case len(in.all) == 1:
		SetPrompt(p.req, in.all[0])
	default:
		p.req.Input = &generationv1.Request_Prompts{Prompts: &generationv1.Prompts{Prompts: in.all}}
	}
	return nil
}

func (p *parser) readPromptElement(in *prompts, i int) (err error) {
	if in.kind != '"' && in.kind != '[' {
		in.ids, err = p.appendTokenID(in.ids)
		return err
	}
	if i == maxPrompts {
		return longArray("prompt", maxPrompts, "a longer one")
	}
	one := &generationv1.Prompt{}
	in.all = append(in.all, one)
	if in.kind == '"' {
		text, err := p.text()
		one.Prompt = &generationv1.Prompt_Text{Text: text}
		return err
	}
	ids, err := p.tokenIDs()
	one.Prompt = &generationv1.Prompt_TokenIds{TokenIds: &generationv1.TokenIds{Ids: ids}}
	if err == nil && len(ids) == 0 {
		return emptyArray(at("prompt", i))
	}
	return err
}

// SetPrompt makes one prompt of an array the input of a request, as if it were by itself.
func SetPrompt(r *generationv1.Request, prompt *generationv1.Prompt) {
	if ids := prompt.GetTokenIds(); ids != nil {
		r.Input = &generationv1.Request_TokenIds{TokenIds: ids}
		return
	}
	r.Input = &generationv1.Request_Text{Text: prompt.GetText()}
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

// readIDs reads an array of token ids; there may be none.
func (p *parser) readIDs() error {
	ids, err := p.tokenIDs()
	p.setTokenIDs(ids)
	return err
}

func (p *parser) tokenIDs() (ids []uint32, err error) {
	err = p.array(func(int) (err error) {
		ids, err = p.appendTokenID(ids)
		return err
	})
	return ids, err
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
