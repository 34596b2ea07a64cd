package openai

import (
	"math"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// ParseChat reads the body of POST /v1/chat/completions. The result has no request id and,
// unless the client gave one, no seed. Parameters that nobody knows go into ignored; nil
// refuses them. An error is an *Error.
func ParseChat(body []byte, ignored *Ignored) (*generationv1.Request, error) {
	p := newParser(body, ignored)
	if err := p.parse(p.chatMember); err != nil {
		return nil, err
	}
	return p.checked(checkChat)
}

// ParseCompletion reads the body of POST /v1/completions, as ParseChat does.
func ParseCompletion(body []byte, ignored *Ignored) (*generationv1.Request, error) {
	p := newParser(body, ignored)
	if err := p.parse(p.completionMember); err != nil {
		return nil, err
	}
	return p.checked(checkCompletion)
}

// parser reads one request.
type parser struct {
	reader
	req *generationv1.Request

	conversation                   *generationv1.Chat // nil until a parameter of it came
	maxTokens, maxCompletionTokens *uint32
	wantLogprobs                   bool
	topLogprobs                    *uint32
}

func newParser(body []byte, ignored *Ignored) *parser {
	return &parser{reader: newReader(body, ignored), req: &generationv1.Request{
		Sampling: &generationv1.Sampling{},
		Limits:   &generationv1.Limits{},
	}}
}

func (p *parser) parse(member func(string) error) error {
	if err := p.whole(member); err != nil {
		return err
	}
	return p.settle()
}

// checked gives the request once check, which knows what it holds together, agrees.
func (p *parser) checked(check func(*generationv1.Request) error) (*generationv1.Request, error) {
	if err := check(p.req); err != nil {
		return nil, err
	}
	return p.req, nil
}

// settle puts together what is told in more than one parameter of JSON.
func (p *parser) settle() error {
	if p.maxTokens != nil && p.maxCompletionTokens != nil {
		return bad("invalid_parameter_combination", "max_tokens",
			"Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	p.req.Limits.MaxTokens = p.maxTokens
	if p.maxCompletionTokens != nil {
		p.req.Limits.MaxTokens = p.maxCompletionTokens
	}
	if p.req.IncludeUsage && !p.req.Stream {
		return bad("invalid_parameter_combination", "stream_options",
			"The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	}
	return p.settleLogprobs()
}

// member reads a parameter of which null is the default. A nil read does not know its name;
// then it is one of unbuilt, or unknown; what the other endpoint knows is refused.
func (p *parser) member(name string, read func() error, notBuilt func(string) (unbuilt, bool), elsewhere func(string) bool) error {
	if read != nil {
		if null, err := p.null(); null || err != nil {
			return err
		}
		return read()
	}
	if u, ok := notBuilt(name); ok {
		return p.onlyDefault(u)
	}
	if !elsewhere(name) {
		return p.unknown(name)
	}
	if null, err := p.null(); null || err != nil {
		return err
	}
	return p.unrecognized()
}

// shared gives what reads a parameter that both endpoints have; nil for another.
func (p *parser) shared(name string) func() error {
	switch name {
	case "model":
		return p.setText(&p.req.Model)
	case "stream":
		return p.setFlag(&p.req.Stream)
	case "stream_options":
		return p.readStreamOptions
	case "cache_salt":
		return p.readCacheSalt
	case "priority":
		return p.readPriority
	case "response_format":
		return p.readResponseFormat
	}
	if read := p.sampling(name); read != nil {
		return read
	}
	if read := p.limits(name); read != nil {
		return read
	}
	if read := p.output(name); read != nil {
		return read
	}
	return p.label(name)
}

func (p *parser) setText(to *string) func() error {
	return func() (err error) { *to, err = p.text(); return err }
}

func (p *parser) setFlag(to *bool) func() error {
	return func() (err error) { *to, err = p.boolean(); return err }
}

// setCount reads an integer between low and high.
func (p *parser) setCount(to *uint32, low, high int64) func() error {
	return func() error {
		v, err := p.integer(low, high)
		*to = uint32(v)
		return err
	}
}

func (p *parser) setOptionalCount(to **uint32, low, high int64) func() error {
	return func() error {
		v, err := p.integer(low, high)
		count := uint32(v)
		*to = &count
		return err
	}
}

func (p *parser) setFloat(to **float32, in *decimals) func() error {
	return func() error {
		v, err := p.decimal(in)
		f := toFloat32(v)
		*to = &f
		return err
	}
}

func (p *parser) readStreamOptions() error {
	return p.object(func(name string) error {
		switch name {
		case "include_usage":
			if null, err := p.null(); null || err != nil {
				return err
			}
			var err error
			p.req.IncludeUsage, err = p.boolean()
			return err
		case "include_obfuscation", "continuous_usage_stats":
			return p.onlyDefault(unbuilt{want: "a boolean", kinds: "tf", defaults: []string{"false"}})
		}
		return p.unrecognized()
	})
}

func (p *parser) readCacheSalt() error {
	salt, err := p.text()
	if err != nil {
		return err
	}
	if salt == "" { // in a typed request this is none
		return emptyString("cache_salt")
	}
	p.req.CacheSalt = salt
	return nil
}

func (p *parser) readPriority() error {
	v, err := p.integer(math.MinInt32, math.MaxInt32)
	p.req.Priority = int32(v)
	return err
}

// readResponseFormat takes the format that asks for nothing.
func (p *parser) readResponseFormat() error {
	typed := false
	err := p.object(func(name string) error {
		if name != "type" { // it belongs to a type that is not built
			return bad("unsupported_value", "response_format",
				"Unsupported value: 'response_format' supports only {\"type\": \"text\"} yet, but got '%s'.", clip(name))
		}
		typed = true
		return p.onlyText("response_format")
	})
	if err == nil && !typed {
		return missing("response_format.type")
	}
	return err
}
