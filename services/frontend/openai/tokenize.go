package openai

import (
	"slices"
	"strconv"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// ParseTokenize reads the body of POST /tokenize, which is vLLM's: a model, and a prompt or
// messages. The result is typed. Otherwise as ParseChat.
func ParseTokenize(body []byte, ignored *Ignored) (*frontendv1.TokenizeRequest, error) {
	p := newParser(body, ignored)
	out := &frontendv1.TokenizeRequest{}
	err := p.whole(func(name string) error {
		return p.optional(name, p.tokenizeReader(name, out))
	})
	if err != nil {
		return nil, err
	}
	out.Request = &frontendv1.TokenizeRequest_Typed{Typed: p.req}
	return out, CheckTokenize(p.req)
}

// optional reads a member unless it is null; a nil read knows none of its name.
func (p *parser) optional(name string, read func() error) error {
	if read == nil {
		return p.unknown(name)
	}
	if null, err := p.null(); null || err != nil {
		return err
	}
	return read()
}

// tokenizeReader gives what reads a parameter; nil for an unknown one.
func (p *parser) tokenizeReader(name string, out *frontendv1.TokenizeRequest) func() error {
	switch name {
	case "model":
		return func() (err error) { p.req.Model, err = p.text(); return err }
	case "prompt":
		return p.only(func() error { return p.readPromptText("a string") })
	case "messages":
		return p.only(p.readMessages)
	case "add_special_tokens":
		return func() (err error) { out.AddSpecialTokens, err = p.flag(); return err }
	case "add_generation_prompt":
		return func() (err error) { out.AddGenerationPrompt, err = p.flag(); return err }
	case "return_token_strs":
		return func() (err error) { out.ReturnTexts, err = p.boolean(); return err }
	case "tools", "continue_final_message", "chat_template", "chat_template_kwargs":
		u, _ := unbuiltChat(name)
		return func() error { return p.onlyDefault(u) }
	}
	return nil
}

// only reads the input, of which there may be one.
func (p *parser) only(read func() error) func() error {
	if p.req.Input == nil {
		return read
	}
	return func() error {
		return bad("invalid_parameter_combination", p.param(), "Setting 'prompt' and 'messages' at the same time is not supported.")
	}
}

func (p *parser) flag() (*bool, error) {
	v, err := p.boolean()
	return &v, err
}

// CheckTokenize checks a request for tokens, wherever it came from. An error is an *Error.
func CheckTokenize(req *generationv1.Request) error {
	switch req.GetInput().(type) {
	case *generationv1.Request_Chat:
		return CheckChat(req)
	case *generationv1.Request_Text:
		return check(req)
	}
	if err := check(req); err != nil {
		return err
	}
	return missing("prompt")
}

// ParseDetokenize reads the body of POST /detokenize, which is vLLM's: a model and tokens.
func ParseDetokenize(body []byte, ignored *Ignored) (*generationv1.Request, error) {
	p := newParser(body, ignored)
	err := p.whole(func(name string) error {
		switch name {
		case "model":
			return p.optional(name, func() (err error) { p.req.Model, err = p.text(); return err })
		case "tokens":
			return p.optional(name, p.readIDs)
		}
		return p.unknown(name)
	})
	if err != nil {
		return nil, err
	}
	return p.req, CheckDetokenize(p.req)
}

// CheckDetokenize checks a request for the text of tokens, as CheckTokenize does.
func CheckDetokenize(req *generationv1.Request) error {
	if err := check(req); err != nil {
		return err
	}
	if _, ok := req.GetInput().(*generationv1.Request_TokenIds); !ok {
		return missing("tokens")
	}
	return nil
}

// AppendTokenized appends the answer of /tokenize. token_strs is null where there are none.
func AppendTokenized(dst []byte, r *frontendv1.TokenizeResponse) []byte {
	tokens := r.GetTokens()
	// An id and a comma take 7 bytes with the vocabularies of today.
	dst = slices.Grow(dst, 96+7*len(tokens))
	dst = append(dst, `{"count":`...)
	dst = strconv.AppendInt(dst, int64(len(tokens)), 10)
	dst = append(dst, `,"max_model_len":`...)
	dst = strconv.AppendUint(dst, uint64(r.GetContextTokens()), 10)
	dst = append(dst, `,"tokens":[`...)
	for i, id := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(id), 10)
	}
	dst = append(dst, `],"token_strs":`...)
	if len(r.GetTexts()) == 0 {
		return append(dst, "null}"...)
	}
	separator := byte('[')
	for _, text := range r.GetTexts() {
		dst = appendQuoted(append(dst, separator), text)
		separator = ','
	}
	return append(dst, "]}"...)
}

// AppendDetokenized appends the answer of /detokenize.
func AppendDetokenized(dst []byte, r *frontendv1.DetokenizeResponse) []byte {
	dst = appendQuoted(append(dst, `{"prompt":`...), r.GetText())
	return append(dst, '}')
}
