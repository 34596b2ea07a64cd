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

// decimal reads a number between low and high.
func (r *reader) decimal(low, high float64) (float64, error) {
	tok, err := r.token()
	if err != nil {
		return 0, err
	}
	if tok.Kind() != '0' {
		return 0, r.mistyped("a decimal", tok)
	}
	v, _ := tok.Float() // out of range is ±Inf, which no bound admits
	return v, checkDecimal(r.param, v, low, high)
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
	if errors.Is(err, strconv.ErrSyntax) {
		return 0, r.mistyped("an integer", tok)
	}
	if v < low || (err != nil && v < 0) {
		return 0, bad("integer_below_min_value", r.param(),
			"Invalid '%s': integer below minimum value. Expected a value >= %d, but got %s instead.", r.param(), low, clip(tok.String()))
	}
	if v > high || err != nil {
		return 0, bad("integer_above_max_value", r.param(),
			"Invalid '%s': integer above maximum value. Expected a value <= %d, but got %s instead.", r.param(), high, clip(tok.String()))
	}
	return v, nil
}

// checkDecimal makes sure that v is a number from low to high.
func checkDecimal(param func() string, v, low, high float64) error {
	switch {
	case math.IsNaN(v):
		return mistyped(param(), "a decimal", "NaN")
	case v < low:
		return bad("decimal_below_min_value", param(),
			"Invalid '%s': decimal below minimum value. Expected a value >= %v, but got %v instead.", param(), low, v)
	case v > high:
		return bad("decimal_above_max_value", param(),
			"Invalid '%s': decimal above maximum value. Expected a value <= %v, but got %v instead.", param(), high, v)
	}
	return nil
}

// toFloat32 narrows v, but never to 0: for a probability 0 would mean something else.
func toFloat32(v float64) float32 {
	if f := float32(v); f != 0 || v == 0 {
		return f
	}
	return float32(math.Copysign(math.SmallestNonzeroFloat32, v))
}
