package openai

import (
	"errors"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// text reads a string.
func (r *reader) text() (string, error) {
	tok, err := r.token()
	if err != nil {
		return "", err
	}
	if tok.Kind() != '"' {
		return "", r.mistyped("a string", tok)
	}
	return tok.String(), nil
}

// boolean reads true or false.
func (r *reader) boolean() (bool, error) {
	tok, err := r.token()
	if err != nil {
		return false, err
	}
	if kind := tok.Kind(); kind != 't' && kind != 'f' {
		return false, r.mistyped("a boolean", tok)
	}
	return tok.Bool(), nil
}

// decimals is a range of decimals, and the parameter that has it.
type decimals struct {
	name      string
	low, high float64
	above     bool // low itself is out
}

// decimal reads a number of a range.
func (r *reader) decimal(in *decimals) (float64, error) {
	tok, err := r.token()
	if err != nil {
		return 0, err
	}
	if tok.Kind() != '0' {
		return 0, mistyped(in.name, "a decimal", describe(tok))
	}
	v, _ := tok.Float() // out of range is ±Inf, which no bound admits
	return v, in.check(v)
}

// check makes sure that v is in the range.
func (d *decimals) check(v float64) error {
	switch {
	case math.IsNaN(v):
		return mistyped(d.name, "a decimal", "NaN")
	case v < d.low || d.above && v == d.low:
		than := ">="
		if d.above {
			than = ">"
		}
		return bad("decimal_below_min_value", d.name,
			"Invalid '%s': decimal below minimum value. Expected a value %s %v, but got %v instead.", d.name, than, d.low, v)
	case v > d.high:
		return bad("decimal_above_max_value", d.name,
			"Invalid '%s': decimal above maximum value. Expected a value <= %v, but got %v instead.", d.name, d.high, v)
	}
	return nil
}

// integer reads an integer between low and high.
func (r *reader) integer(low, high int64) (int64, error) {
	tok, err := r.token()
	if err != nil {
		return 0, err
	}
	return r.integerOf(tok, low, high)
}

func (r *reader) integerOf(tok jsontext.Token, low, high int64) (int64, error) {
	if tok.Kind() != '0' {
		return 0, r.mistyped("an integer", tok)
	}
	v, err := tok.Int()
	if errors.Is(err, strconv.ErrSyntax) && !wholeNumber(tok) {
		return 0, r.mistyped("an integer", tok)
	}
	// What an int64 cannot hold is v at its limit, which a range may have as its own.
	outside := errors.Is(err, strconv.ErrRange)
	if v < low || outside && v < 0 {
		return 0, belowMin(r.param(), low, clip(tok.String()))
	}
	if v > high || outside {
		return 0, aboveMax(r.param(), high, clip(tok.String()))
	}
	return v, nil
}

// wholeNumber tells whether a number with a fraction or an exponent is an integer all the
// same, as 1.0 is to JSON. Beyond what a float64 tells apart it is not.
func wholeNumber(tok jsontext.Token) bool {
	const most = 1 << 53
	f, _ := tok.Float()
	return f == math.Trunc(f) && math.Abs(f) <= most
}

func belowMin(param string, low int64, got string) *Error {
	return bad("integer_below_min_value", param,
		"Invalid '%s': integer below minimum value. Expected a value >= %d, but got %s instead.", param, low, got)
}

func aboveMax(param string, high int64, got string) *Error {
	return bad("integer_above_max_value", param,
		"Invalid '%s': integer above maximum value. Expected a value <= %d, but got %s instead.", param, high, got)
}

// toFloat32 narrows v, but never to 0: for a probability 0 would mean something else.
func toFloat32(v float64) float32 {
	if f := float32(v); f != 0 || v == 0 {
		return f
	}
	return float32(math.Copysign(math.SmallestNonzeroFloat32, v))
}
