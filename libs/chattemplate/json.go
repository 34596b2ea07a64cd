package chattemplate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
)

const (
	maxJSONDepth = 64   // of objects within objects
	maxIntDigits = 1000 // of an integer
)

// DecodeJSON reads one JSON value and keeps what templates can see: the order of an
// object's fields (Object) and the difference of 1 (int64, or *big.Int if it is too large for
// that) and 1.0 (float64).
func DecodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decode(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("JSON goes on after its value")
	}
	return v, nil
}

func decode(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("JSON nests deeper than %d", maxJSONDepth)
	}
	switch t := token.(type) {
	case json.Number:
		return number(t)
	case json.Delim:
		if t == '[' {
			return decodeList(d, depth)
		}
		return decodeObject(d, depth)
	}
	return token, nil
}

func number(n json.Number) (any, error) {
	if !strings.ContainsAny(n.String(), ".eE") {
		if i, err := n.Int64(); err == nil {
			return i, nil
		}
		if len(n) > maxIntDigits {
			return nil, fmt.Errorf("JSON has an integer of %d digits, want at most %d", len(n), maxIntDigits)
		}
		if i, ok := new(big.Int).SetString(n.String(), 10); ok {
			return i, nil
		}
	}
	return n.Float64()
}

func decodeList(d *json.Decoder, depth int) (any, error) {
	list := []any{}
	for d.More() {
		v, err := decode(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}

// decodeObject lets the last of equal names win, in the place of the first.
func decodeObject(d *json.Decoder, depth int) (any, error) {
	object, places := Object{}, map[string]int{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decode(d, depth+1)
		if err != nil {
			return nil, err
		}
		f := Field{name.(string), v} // the decoder accepts nothing else here
		if i, twice := places[f.Name]; twice {
			object[i] = f
			continue
		}
		places[f.Name] = len(object)
		object = append(object, f)
	}
	_, err := d.Token()
	return object, err
}
