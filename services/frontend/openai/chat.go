package openai

import (
	"math"
	"strings"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// roles are the roles of a message, in the words of an error.
const roles = "'system', 'user', 'assistant', 'developer' and 'tool'"

func knownRole(role string) bool {
	switch role {
	case "system", "user", "assistant", "developer", "tool":
		return true
	}
	return false
}

// chatMember reads one parameter of a chat completion.
func (p *parser) chatMember(name string) error {
	if name == "messages" { // null is no default of what is required
		return p.readMessages()
	}
	return p.member(name, p.chatReader(name), unbuiltChat, p.ofCompletion)
}

// ofCompletion tells whether text completions know a parameter.
func (p *parser) ofCompletion(name string) bool {
	_, unbuilt := unbuiltCompletion(name)
	return unbuilt || name == "prompt" || p.completionReader(name) != nil
}

// chatReader gives what reads a parameter; nil for one that is not built.
func (p *parser) chatReader(name string) func() error {
	switch name {
	case "max_completion_tokens":
		return p.setOptionalCount(&p.maxCompletionTokens, 1, math.MaxUint32)
	case "modalities":
		return p.readModalities
	case "prompt_cache_key":
		return p.setText(&p.req.Session)
	case "logprobs":
		return p.setFlag(&p.wantLogprobs)
	case "top_logprobs":
		return p.setOptionalCount(&p.topLogprobs, 0, maxLogprobs)
	}
	if read := p.shared(name); read != nil {
		return read
	}
	return p.template(name)
}

func (p *parser) readModalities() error {
	return p.array(func(int) error { return p.onlyText("modalities") })
}

// onlyText reads the string "text"; another one is refused in the name of param.
func (p *parser) onlyText(param string) error {
	text, err := p.text()
	if err == nil && text != "text" {
		return bad("unsupported_value", param, "Unsupported value: '%s' does not support '%s' yet. Only 'text' is supported.", param, clip(text))
	}
	return err
}

func (p *parser) readMessages() error {
	chat := p.chat()
	p.req.Input = &generationv1.Request_Chat{Chat: chat}
	return p.array(func(int) error {
		m, err := p.readMessage()
		chat.Messages = append(chat.Messages, m)
		return err
	})
}

func (p *parser) readMessage() (*generationv1.Message, error) {
	m := &generationv1.Message{}
	hasContent, noContent := false, false
	err := p.object(func(name string) (err error) {
		switch name {
		case "role":
			m.Role, err = p.readRole()
		case "content":
			hasContent = true
			if noContent, err = p.null(); err == nil && !noContent {
				m.Content, err = p.readContent()
			}
		case "name":
			m.Name, err = p.optionalText()
		case "tool_call_id":
			_, err = p.optionalText()
		case "refusal":
			err = p.onlyDefault(unbuilt{want: "a string", kinds: `"`})
		case "tool_calls", "annotations":
			err = p.onlyDefault(unbuilt{"an array", "[", []string{"[]"}})
		case "audio", "function_call":
			err = p.onlyDefault(unbuilt{want: "an object", kinds: "{"})
		default:
			err = p.unrecognized()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if m.Role == "" {
		return nil, missing(p.param() + ".role")
	}
	if !hasContent {
		return nil, missing(p.param() + ".content")
	}
	if noContent { // told last: what stands beside it says more
		return nil, mistyped(p.param()+".content", "a string or an array of text parts", "null")
	}
	return m, nil
}

func (p *parser) optionalText() (string, error) {
	if null, err := p.null(); null || err != nil {
		return "", err
	}
	return p.text()
}

func (p *parser) readRole() (string, error) {
	role, err := p.text()
	if err != nil {
		return "", err
	}
	if !knownRole(role) {
		return "", badRole(p.param(), role)
	}
	return role, nil
}

func badRole(param, role string) *Error {
	return bad("invalid_value", param, "Invalid value: '%s'. Supported values are: %s.", clip(role), roles)
}

// readContent reads a string, or an array of text parts, which a newline joins.
func (p *parser) readContent() (string, error) {
	if p.dec.PeekKind() != '[' {
		tok, err := p.token()
		if err != nil {
			return "", err
		}
		if tok.Kind() != '"' {
			return "", p.mistyped("a string or an array of text parts", tok)
		}
		return tok.String(), nil
	}
	var parts []string
	err := p.array(func(int) error {
		text, err := p.readPart()
		parts = append(parts, text)
		return err
	})
	if err == nil && len(parts) == 0 {
		return "", emptyArray(p.param())
	}
	return strings.Join(parts, "\n"), err
}

// readPart reads {"type":"text","text":…}. The type may come last, so a member that only
// other types have is refused once the type is known, or for itself.
func (p *parser) readPart() (string, error) {
	var text, kind string
	var hasText bool
	var foreign error
	err := p.object(func(name string) (err error) {
		switch name {
		case "type":
			if kind, err = p.text(); err == nil && kind != "text" {
				err = bad("invalid_value", p.param(), "Invalid value: '%s'. Supported values are: 'text'.", clip(kind))
			}
		case "text":
			hasText = true
			text, err = p.text()
		default:
			if foreign == nil {
				foreign = p.unrecognized()
			}
			if kind != "" {
				return foreign
			}
			err = p.skip()
		}
		return err
	})
	switch {
	case err != nil:
		return "", err
	case kind == "":
		return "", missing(p.param() + ".type")
	case foreign != nil:
		return "", foreign
	case !hasText:
		return "", missing(p.param() + ".text")
	}
	return text, nil
}
