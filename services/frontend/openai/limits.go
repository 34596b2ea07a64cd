package openai

import (
	"fmt"
	"math"
	"strconv"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

const (
	// maxStop is the most stop strings of a request.
	maxStop = 4
	// maxStopTokens is the most stop tokens of a request.
	maxStopTokens = 64
)

// limits gives what reads a parameter that says when an answer ends; nil for another.
func (p *parser) limits(name string) func() error {
	l := p.req.Limits
	switch name {
	case "max_tokens":
		return p.setOptionalCount(&p.maxTokens, 1, math.MaxUint32)
	case "min_tokens":
		return p.setCount(&l.MinTokens, 0, math.MaxUint32)
	case "stop":
		return p.readStop
	case "stop_token_ids":
		return p.readStopTokens
	case "ignore_eos":
		return p.setFlag(&l.IgnoreEos)
	case "include_stop_str_in_output":
		return p.setFlag(&l.IncludeStop)
	}
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
			return longArray("stop", maxStop, "a longer one")
		}
		stop, err := p.text()
		p.req.Limits.Stop = append(p.req.Limits.Stop, stop)
		return err
	})
}

func (p *parser) readStopTokens() error {
	return p.array(func(i int) (err error) {
		if i == maxStopTokens {
			return longArray("stop_token_ids", maxStopTokens, "a longer one")
		}
		p.req.Limits.StopTokenIds, err = p.appendTokenID(p.req.Limits.StopTokenIds)
		return err
	})
}

func checkLimits(l *generationv1.Limits) error {
	switch {
	case l == nil:
		return nil
	case l.MaxTokens != nil && *l.MaxTokens == 0:
		return belowMin("max_tokens", 1, "0")
	case l.MaxTokens != nil && l.MinTokens > *l.MaxTokens:
		return bad("integer_above_max_value", "min_tokens",
			"Invalid 'min_tokens': integer above maximum value. Expected a value <= 'max_tokens', which is %d, but got %d instead.", *l.MaxTokens, l.MinTokens)
	case len(l.Stop) > maxStop:
		return longArray("stop", maxStop, lengthOf(len(l.Stop)))
	case len(l.StopTokenIds) > maxStopTokens:
		return longArray("stop_token_ids", maxStopTokens, lengthOf(len(l.StopTokenIds)))
	}
	for i, stop := range l.Stop {
		if stop == "" {
			return bad("empty_string", "stop", "Invalid 'stop': empty string at index %d. Expected strings with minimum length 1.", i)
		}
	}
	return nil
}

func longArray(param string, most int, got string) *Error {
	return bad("array_above_max_length", param,
		"Invalid '%s': array too long. Expected an array with maximum length %d, but got %s instead.", param, most, got)
}

func lengthOf(n int) string { return "an array with length " + strconv.Itoa(n) }

func emptyArray(param string) *Error {
	return bad("empty_array", param, "Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
}

func emptyString(param string) *Error {
	return bad("empty_string", param, "Invalid '%s': empty string. Expected a string with minimum length 1.", param)
}

func longText(param string, most int, unit string, got int) *Error {
	return bad("string_above_max_length", param,
		"Invalid '%s': string too long. Expected a string with maximum length %d%s, but got a string with length %d instead.", param, most, unit, got)
}

func at(param string, i int) string { return fmt.Sprintf("%s[%d]", param, i) }
