package openai

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// reader reads JSON token by token and makes OpenAI errors. A param that an error names is
// where the reader stands, worked out only then.
type reader struct {
	dec     *jsontext.Decoder
	body    []byte
	ignored *Ignored // nil: what is unknown is refused
}

func newReader(body []byte, ignored *Ignored) reader {
	// A bytes.Buffer is read in place. The defaults refuse duplicates and invalid UTF-8.
	return reader{dec: jsontext.NewDecoder(bytes.NewBuffer(body)), body: body, ignored: ignored}
}

// whole reads a body, which is one object, calling member after each name.
func (r *reader) whole(member func(name string) error) error {
	if kind := r.dec.PeekKind(); kind > 0 && kind != '{' {
		tok, err := r.token()
		if err != nil {
			return err
		}
		return bad("invalid_type", "", "Invalid type for the request body: expected an object, but got %s instead.", describe(tok))
	}
	if err := r.object(member); err != nil {
		return err
	}
	return r.end()
}

// token reads the next token.
func (r *reader) token() (jsontext.Token, error) {
	tok, err := r.dec.ReadToken()
	if err != nil {
		return tok, r.syntax(err)
	}
	return tok, nil
}

// unknown skips a member of the body that nobody knows, or refuses it.
func (r *reader) unknown(name string) error {
	if r.ignored == nil {
		return r.unrecognized()
	}
	r.ignored.add(name)
	return r.skip()
}

// skip reads a value of any kind. The decoder bounds its depth.
func (r *reader) skip() error {
	if err := r.dec.SkipValue(); err != nil {
		return r.syntax(err)
	}
	return nil
}

// unrecognized refuses the member whose name was just read.
func (r *reader) unrecognized() error {
	param := r.param()
	return bad("unknown_parameter", param, "Unrecognized request argument supplied: %s", param)
}

// null reads a null if one is next.
func (r *reader) null() (bool, error) {
	if r.dec.PeekKind() != 'n' {
		return false, nil
	}
	_, err := r.token()
	return err == nil, err
}

// object reads an object, calling member after each name. member reads the value.
func (r *reader) object(member func(name string) error) error {
	tok, err := r.token()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return r.mistyped("an object", tok)
	}
	for {
		tok, err := r.token()
		if err != nil {
			return err
		}
		if tok.Kind() == '}' {
			return nil
		}
		if err := member(tok.String()); err != nil {
			return err
		}
	}
}

// array reads an array, calling element before each element. element reads it.
func (r *reader) array(element func(i int) error) error {
	tok, err := r.token()
	if err != nil {
		return err
	}
	if tok.Kind() != '[' {
		return r.mistyped("an array", tok)
	}
	for i := 0; ; i++ {
		// An invalid next token is not ']', and element's own read reports it.
		if r.dec.PeekKind() == ']' {
			_, err := r.token()
			return err
		}
		if err := element(i); err != nil {
			return err
		}
	}
}

// end makes sure that nothing follows the object.
func (r *reader) end() error {
	_, err := r.dec.ReadToken()
	switch {
	case err == io.EOF:
		return nil
	case err != nil:
		return r.syntax(err)
	}
	return bad("", "", "We could not parse the JSON body of your request: unexpected data after the object, at byte %d.", r.dec.InputOffset())
}

// syntax turns a decoder's error into an OpenAI one that tells the position.
func (r *reader) syntax(err error) error {
	if err == io.EOF && len(bytes.TrimSpace(r.body)) == 0 {
		return bad("", "", "We could not parse the JSON body of your request: it is empty. Expected a JSON object.")
	}
	offset, reason, param := r.dec.InputOffset(), err.Error(), ""
	if e := (*jsontext.SyntacticError)(nil); errors.As(err, &e) {
		offset, reason = e.ByteOffset, e.Err.Error()
		if errors.Is(err, jsontext.ErrDuplicateName) {
			param = paramOf(e.JSONPointer)
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		offset, reason = int64(len(r.body)), "unexpected end"
	}
	offset = min(max(offset, 0), int64(len(r.body)))
	before := r.body[:offset]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return bad("", param, "We could not parse the JSON body of your request: %s, at byte %d (line %d, column %d).", reason, offset, line, column)
}

// param names the value that was read last.
func (r *reader) param() string { return paramOf(r.dec.StackPointer()) }

// paramOf writes a pointer as OpenAI names parameters: messages[0].content.
func paramOf(pointer jsontext.Pointer) string {
	var b strings.Builder
	for token := range pointer.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil && b.Len() > 0 {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(clip(token))
	}
	return b.String()
}

func (r *reader) mistyped(want string, got jsontext.Token) error {
	return mistyped(r.param(), want, describe(got))
}

// describe names the type of a token in the words of OpenAI's errors.
func describe(tok jsontext.Token) string {
	switch tok.Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		if strings.ContainsAny(tok.String(), ".eE") {
			return "a decimal"
		}
		return "an integer"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return strconv.Quote(tok.String())
}

// clip keeps what a client sent from filling an error or a log.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
