package hfjson

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// each calls element for every element of an array, with its path. depth is how many arrays of
// the same kind are around it.
func each(path string, array jsontext.Value, depth int, element func(path string, value jsontext.Value) error) error {
	if depth >= maxNesting {
		return fmt.Errorf("%s is nested more than %d deep", clip(path), maxNesting)
	}
	return elements(jsontext.NewDecoder(bytes.NewBuffer(array)), path, func(i int, value jsontext.Value) error {
		return element(fmt.Sprintf("%s[%d]", path, i), value)
	})
}

// elements reads an array and calls element for each value, which is valid until it returns.
func elements(dec *jsontext.Decoder, path string, element func(i int, value jsontext.Value) error) error {
	if err := open(dec, path, '['); err != nil {
		return err
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := element(i, value); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// pair reads an array of two values.
func pair(array jsontext.Value) (first, second jsontext.Value, err error) {
	if array.Kind() != '[' {
		return nil, nil, errNoPair
	}
	var values []jsontext.Value
	err = elements(jsontext.NewDecoder(bytes.NewBuffer(array)), "", func(_ int, value jsontext.Value) error {
		if values = append(values, value); len(values) > 2 {
			return errNoPair
		}
		return nil
	})
	if err != nil || len(values) != 2 {
		return nil, nil, errNoPair
	}
	// The decoder reads a bytes.Buffer in place: the first value is there still.
	return values[0], values[1], nil
}

var errNoPair = errors.New("want an array of two")
