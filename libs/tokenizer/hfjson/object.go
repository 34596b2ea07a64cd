package hfjson

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// object is a small object of the file. Its methods read a member; the first error stays in err,
// which close returns. A member that nobody has read is an option that is not known.
type object struct {
	path    string
	members []objectMember
	err     error
}

type objectMember struct {
	name  string
	value jsontext.Value
	read  bool
}

// newObject parses an object, whose values alias data.
func newObject(path string, data jsontext.Value) object {
	o := object{path: path}
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	if o.err = open(dec, path, '{'); o.err != nil {
		return o
	}
	for o.err == nil && dec.PeekKind() != '}' {
		var m objectMember
		if m, o.err = readMember(dec); o.err == nil {
			o.members = append(o.members, m)
		}
	}
	if o.err == nil {
		_, o.err = dec.ReadToken()
	}
	return o
}

func readMember(dec *jsontext.Decoder) (m objectMember, err error) {
	token, err := dec.ReadToken()
	if err != nil {
		return m, err
	}
	m.name = token.String()
	m.value, err = dec.ReadValue()
	return m, err
}

func (o *object) fail(name, format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%s %s", join(o.path, name), fmt.Sprintf(format, args...))
	}
}

// value finds a member; one that is null is as one that is not there.
func (o *object) value(name string) (jsontext.Value, bool) {
	i := slices.IndexFunc(o.members, func(m objectMember) bool { return m.name == name })
	if o.err != nil || i < 0 {
		return nil, false
	}
	o.members[i].read = true
	return o.members[i].value, o.members[i].value.Kind() != 'n'
}

// need is value of a member that must be there, of a kind.
func (o *object) need(name string, kind jsontext.Kind) jsontext.Value {
	value, ok := o.value(name)
	switch {
	case !ok:
		o.fail(name, "is missing")
		return nil
	case value.Kind() != kind:
		o.fail(name, "is %s, want %s", clip(value), kind)
		return nil
	}
	return value
}

func (o *object) text(name string) string {
	value := o.need(name, '"')
	if value == nil {
		return ""
	}
	return unquote(value)
}

// character reads a string of one character.
func (o *object) character(name string) string {
	text := o.text(name)
	if o.err == nil && utf8.RuneCountInString(text) != 1 {
		o.fail(name, "is %q, want one character", clip(text))
	}
	return text
}

// choice reads a string out of a few; without options[0] it is that one.
func (o *object) choice(name string, options ...string) string {
	if _, ok := o.value(name); !ok {
		return options[0]
	}
	text := o.text(name)
	if o.err == nil && !slices.Contains(options, text) {
		o.fail(name, "is %q, want one of %q", clip(text), options)
	}
	return text
}

func (o *object) flag(name string) bool {
	switch value, ok := o.value(name); {
	case !ok:
		o.fail(name, "is missing")
	case value.Kind() == 't':
		return true
	case value.Kind() != 'f':
		o.fail(name, "is %s, want true or false", clip(value))
	}
	return false
}

// option is flag of a member that need not be there.
func (o *object) option(name string, otherwise bool) bool {
	if _, ok := o.value(name); !ok {
		return otherwise
	}
	return o.flag(name)
}

// count reads a number of things or an id.
func (o *object) count(name string) int {
	value := o.need(name, '0')
	if value == nil {
		return 0
	}
	n, err := count(value)
	if err != nil {
		o.fail(name, "is %v", err)
	}
	return n
}

// close tells the first error, or that there is an option that nobody has read.
func (o *object) close() error {
	if o.err != nil {
		return o.err
	}
	for _, m := range o.members {
		if !m.read {
			return fmt.Errorf("%s is an option that is not known", join(o.path, clip(m.name)))
		}
	}
	return nil
}

// count parses a whole number below the bound of ids.
func count(value jsontext.Value) (int, error) {
	n, err := strconv.ParseUint(string(value), 10, 32)
	if err != nil || n >= maxTokens {
		return 0, fmt.Errorf("%s, want a whole number below %d", clip(value), maxTokens)
	}
	return int(n), nil
}

// unquote gives the text of a string that jsontext has found valid.
func unquote(value jsontext.Value) string { return string(appendText(nil, value)) }

// appendText appends the text of a string that jsontext has found valid.
func appendText(dst []byte, value jsontext.Value) []byte {
	if bytes.IndexByte(value, '\\') < 0 {
		return append(dst, value[1:len(value)-1]...)
	}
	// It cannot fail: jsontext refuses a lone surrogate as it reads it.
	dst, _ = jsontext.AppendUnquote(dst, value)
	return dst
}
