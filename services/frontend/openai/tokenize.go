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
		return p.member(name, p.tokenizeReader(name, out), unbuiltTokenize, nowhere)
	})
	if err != nil {
		return nil, err
	}
	req, err := p.checked(checkTokenize)
	if err != nil {
		return nil, err
	}
	out.Request = &frontendv1.TokenizeRequest_Typed{Typed: req}
	return out, nil
}

// tokenizeReader gives what reads a parameter; nil for an unknown one. How a conversation
// becomes a prompt is told as for a chat.
func (p *parser) tokenizeReader(name string, out *frontendv1.TokenizeRequest) func() error {
	switch name {
	case "model":
		return p.setText(&p.req.Model)
	case "prompt":
		return p.only(func() error { return p.readPromptText("a string") })
	case "messages":
		return p.only(p.readMessages)
	case "add_special_tokens":
		return func() error {
			v, err := p.boolean()
			out.AddSpecialTokens = &v
			return err
		}
	case "return_token_strs":
		return p.setFlag(&out.ReturnTexts)
	}
	return p.template(name)
}

func unbuiltTokenize(name string) (unbuilt, bool) {
	switch name {
	case "tools", "chat_template":
		return unbuiltChat(name)
	}
	return unbuilt{}, false
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

// CheckTokenize checks a request for tokens, wherever it came from. An error is an *Error.
func CheckTokenize(req *generationv1.Request) error {
	if err := checkTexts(req); err != nil {
		return err
	}
	return checkTokenize(req)
}

func checkTokenize(req *generationv1.Request) error {
	switch req.GetInput().(type) {
	case *generationv1.Request_Chat:
		return checkChat(req)
	case *generationv1.Request_Text:
		return check(req, 1)
	}
	if err := check(req, 1); err != nil {
		return err
	}
	return missing("prompt")
}

// ParseDetokenize reads the body of POST /detokenize, which is vLLM's: a model and tokens.
func ParseDetokenize(body []byte, ignored *Ignored) (*generationv1.Request, error) {
	p := newParser(body, ignored)
	err := p.whole(func(name string) error {
		var read func() error
		switch name {
		case "model":
			read = p.setText(&p.req.Model)
		case "tokens":
			read = p.readIDs
		}
		return p.member(name, read, func(string) (unbuilt, bool) { return unbuilt{}, false }, nowhere)
	})
	if err != nil {
		return nil, err
	}
	return p.checked(checkDetokenize)
}

// CheckDetokenize checks a request for the text of tokens, as CheckTokenize does.
func CheckDetokenize(req *generationv1.Request) error {
	if err := checkTexts(req); err != nil {
		return err
	}
	return checkDetokenize(req)
}

func checkDetokenize(req *generationv1.Request) error {
	if err := check(req, 1); err != nil {
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
	dst = appendIDs(append(dst, `,"tokens":`...), tokens)
	dst = append(dst, `,"token_strs":`...)
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

// nowhere says that no other endpoint is meant by a parameter.
func nowhere(string) bool { return false }
