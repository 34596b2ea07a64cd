package serve

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/tools/bench/route"
)

// prompts makes bodies of requests. All depends on the seed and the number of the request
// only, not on what goroutine sends it. It does not change, so goroutines may share it.
type prompts struct {
	cfg        *Config
	head, tail string // of a body, around the text
	// wordsPerToken turns lengths in tokens into words.
	wordsPerToken float64
	prefixes      [][]byte
}

func newPrompts(cfg *Config, model string, wordsPerToken float64) (*prompts, error) {
	quoted, err := jsontext.AppendQuote(nil, model)
	if err != nil {
		return nil, err
	}
	p := &prompts{cfg: cfg, wordsPerToken: wordsPerToken, head: `{"model":` + string(quoted)}
	if cfg.Endpoint == Chat {
		p.head += `,"messages":[{"role":"user","content":`
		p.tail = `}]`
	} else {
		p.head += `,"prompt":`
	}
	if cfg.Stream {
		p.tail += `,"stream":true,"stream_options":{"include_usage":true}`
	}
	if cfg.Temperature != nil {
		p.tail += `,"temperature":` + strconv.FormatFloat(*cfg.Temperature, 'g', -1, 64)
	}
	if cfg.IgnoreEOS {
		p.tail += `,"ignore_eos":true`
	}
	p.tail += `,"max_tokens":`
	if cfg.PrefixWords > 0 && cfg.PrefixGroups <= maxPrefixesKept {
		p.prefixes = make([][]byte, cfg.PrefixGroups)
		for group := range p.prefixes {
			p.prefixes[group] = p.prefix(nil, group)
		}
	}
	return p, nil
}

// maxPrefixesKept bounds memory: further ones are made anew for each request.
const maxPrefixesKept = 1000

// body is the request of this number.
func (p *prompts) body(dst []byte, index int) []byte {
	if p.cfg.Trace != nil {
		r := &p.cfg.Trace.Requests[index]
		return p.wrap(dst, p.runs(nil, r), r.OutputTokens)
	}
	return p.drawn(dst, random(p.cfg.Seed, forLengths, index), random(p.cfg.Seed, forText, index))
}

// warmup is like body, with other texts.
func (p *prompts) warmup(dst []byte, index int) []byte {
	r := random(p.cfg.Seed, forWarmup, index)
	return p.drawn(dst, r, r)
}

// probe is a request of so many words for one token.
func (p *prompts) probe(words int) []byte {
	return p.wrap(nil, p.text(nil, words, random(p.cfg.Seed, forProbe, 0)), 1)
}

func (p *prompts) drawn(dst []byte, lengths, text *corpus.Random) []byte {
	input, output := p.cfg.ISL.draw(lengths), p.cfg.OSL.draw(lengths)
	if p.cfg.ISLUnit == Tokens {
		input = p.words(input)
	}
	var prompt []byte
	if p.cfg.PrefixWords > 0 {
		group := lengths.Below(p.cfg.PrefixGroups)
		if p.prefixes != nil {
			prompt = append(prompt, p.prefixes[group]...)
		} else {
			prompt = p.prefix(prompt, group)
		}
	}
	return p.wrap(dst, p.text(prompt, input, text), output)
}

func (p *prompts) prefix(dst []byte, group int) []byte {
	return p.text(dst, p.cfg.PrefixWords, random(p.cfg.Seed, forPrefix, group))
}

// wrap makes a body of a prompt.
func (p *prompts) wrap(dst, prompt []byte, maxTokens int) []byte {
	dst = append(dst, p.head...)
	// Words of a file may hold anything; what is no UTF-8 is replaced, and reported: that is no error here.
	dst, _ = jsontext.AppendQuote(dst, prompt)
	dst = append(dst, p.tail...)
	dst = strconv.AppendInt(dst, int64(maxTokens), 10)
	return append(dst, '}')
}

// text appends words.
func (p *prompts) text(dst []byte, words int, r *corpus.Random) []byte {
	all := p.cfg.Vocabulary
	at := r.Below(len(all))
	for range words {
		if len(dst) > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, all[at]...)
		if p.cfg.InOrder {
			at = (at + 1) % len(all)
		} else {
			at = r.Below(len(all))
		}
	}
	return dst
}

// runs appends the prompt of a request of a trace: each run's text depends on its number
// only, so equal prefixes of the trace are equal texts. Words are counted from the prompt's
// start, so that rounding does not add up.
func (p *prompts) runs(dst []byte, r *route.Request) []byte {
	before := 0
	for place, run := range r.Runs {
		end := max(p.words(min((place+1)*route.RunTokens, r.InputTokens)), before)
		dst = p.text(dst, end-before, random(p.cfg.Seed, forRuns, int(run)))
		before = end
	}
	return dst
}

// words is how many words have about so many tokens.
func (p *prompts) words(tokens int) int {
	return max(1, int(math.Round(float64(tokens)*p.wordsPerToken)))
}
