package openai

import (
	"math"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// maxStop is the most stop strings of a request.
const maxStop = 4

// ParseChat reads the body of POST /v1/chat/completions. The result has no request id and,
// unless the client gave one, no seed. Parameters that nobody knows go into ignored; nil
// refuses them. An error is an *Error.
func ParseChat(body []byte, ignored *Ignored) (*generationv1.Request, error) {
	p := newParser(body, ignored)
	if err := p.parse(p.chatMember); err != nil {
		return nil, err
	}
	return p.req, CheckChat(p.req)
}

// ParseCompletion reads the body of POST /v1/completions, as ParseChat does.
func ParseCompletion(body []byte, ignored *Ignored) (*generationv1.Request, error) {
	p := newParser(body, ignored)
	if err := p.parse(p.completionMember); err != nil {
		return nil, err
	}
	return p.req, CheckCompletion(p.req)
}

// parser reads one request.
type parser struct {
	reader
	req *generationv1.Request

	maxTokens, maxCompletionTokens *uint32
	streamOptions                  bool
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

// settle checks what depends on more than one parameter.
func (p *parser) settle() error {
	if p.maxTokens != nil && p.maxCompletionTokens != nil {
		return bad("invalid_parameter_combination", "max_tokens",
			"Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	p.req.Limits.MaxTokens = p.maxTokens
	if p.maxCompletionTokens != nil {
		p.req.Limits.MaxTokens = p.maxCompletionTokens
	}
	if p.streamOptions && !p.req.Stream {
		return bad("invalid_parameter_combination", "stream_options",
			"The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	}
	return nil
}

// shared reads the parameters that both endpoints have. Null is the default of each.
func (p *parser) shared(name string) (known bool, err error) {
	read, known := p.sharedReader(name)
	if !known {
		return false, nil
	}
	if null, err := p.null(); null || err != nil {
		return true, err
	}
	return true, read()
}

func (p *parser) sharedReader(name string) (read func() error, known bool) {
	switch name {
	case "model":
		return func() (err error) { p.req.Model, err = p.text(); return err }, true
	case "stream":
		return func() (err error) { p.req.Stream, err = p.boolean(); return err }, true
	case "stream_options":
		return p.readStreamOptions, true
	case "stop":
		return p.readStop, true
	case "max_tokens":
		return func() (err error) { p.maxTokens, err = p.tokens(); return err }, true
	case "seed":
		return p.readSeed, true
	case "temperature":
		return func() (err error) { p.req.Sampling.Temperature, err = p.float(0, 2); return err }, true
	case "top_p":
		return p.readTopP, true
	case "top_k":
		return p.readTopK, true
	case "user":
		return p.discardText, true
	}
	return nil, false
}

func (p *parser) discardText() error {
	_, err := p.text()
	return err
}

func (p *parser) tokens() (*uint32, error) {
	v, err := p.integer(1, math.MaxUint32)
	if err != nil {
		return nil, err
	}
	tokens := uint32(v)
	return &tokens, nil
}

func (p *parser) float(low, high float64) (*float32, error) {
	v, err := p.decimal(low, high)
	if err != nil {
		return nil, err
	}
	f := toFloat32(v)
	return &f, nil
}

func (p *parser) readTopP() error {
	v, err := p.decimal(0, 1)
	if err != nil {
		return err
	}
	if err := checkTopP(v); err != nil {
		return err
	}
	f := toFloat32(v)
	p.req.Sampling.TopP = &f
	return nil
}

func (p *parser) readTopK() error {
	v, err := p.integer(0, math.MaxUint32)
	if err != nil {
		return err
	}
	k := uint32(v)
	p.req.Sampling.TopK = &k
	return nil
}

// readSeed takes any int64; a negative one is the key with the same bits.
func (p *parser) readSeed() error {
	v, err := p.integer(math.MinInt64, math.MaxInt64)
	if err != nil {
		return err
	}
	seed := uint64(v)
	p.req.Sampling.Seed = &seed
	return nil
}

func (p *parser) readStop() error {
	if p.dec.PeekKind() != '[' {
		tok, err := p.token()
		if err != nil {
			return err
		}
		if tok.Kind() != '"' {
			return p.mistyped("a string or an array of strings", tok)
		}
		p.req.Limits.Stop = []string{tok.String()}
		return nil
	}
	return p.array(func(i int) error {
		if i == maxStop {
			return bad("array_above_max_length", "stop",
				"Invalid 'stop': array too long. Expected an array with maximum length %d, but got a longer one instead.", maxStop)
		}
		stop, err := p.text()
		p.req.Limits.Stop = append(p.req.Limits.Stop, stop)
		return err
	})
}

func (p *parser) readStreamOptions() error {
	p.streamOptions = true
	return p.object(func(name string) error {
		switch name {
		case "include_usage":
			if null, err := p.null(); null || err != nil {
				return err
			}
			var err error
			p.req.IncludeUsage, err = p.boolean()
			return err
		case "include_obfuscation":
			return p.onlyDefault(unbuilt{want: "a boolean", kinds: "tf", defaults: []string{"false"}})
		}
		return p.unrecognized()
	})
}
