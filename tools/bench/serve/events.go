package serve

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxEventBytes bounds one event, and an answer that is no stream.
const maxEventBytes = 64 << 20

var errLongEvent = errors.New("an event is too long")

// events reads server-sent events. Its memory is reused for all events and all answers.
type events struct {
	in   *bufio.Reader
	data []byte
}

func newEvents() *events { return &events{in: bufio.NewReaderSize(nil, 32<<10)} }

func (e *events) reset(in io.Reader) { e.in.Reset(in) }

// next is the data of the next event that has any, valid until the following call. io.EOF
// is the stream's end: an event that is cut off within a line is dropped.
func (e *events) next() ([]byte, error) {
	e.data = e.data[:0]
	found := false
	for {
		begin := len(e.data)
		err := e.line()
		if errors.Is(err, io.EOF) && found && len(e.data) == begin {
			return e.data, nil // some servers leave out the last empty line
		}
		if err != nil {
			return nil, err
		}
		line := bytes.TrimSuffix(e.data[begin:], []byte("\r"))
		value, isData := bytes.CutPrefix(line, []byte("data:"))
		switch {
		case len(line) == 0 && found:
			e.data = e.data[:begin]
			return e.data, nil
		case !isData: // a comment, another field, an empty line
			e.data = e.data[:begin]
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		if found {
			e.data[begin] = '\n' // where the field's name was
			begin++
		}
		e.data = append(e.data[:begin], value...)
		found = true
	}
}

// line appends a line without its end.
func (e *events) line() error {
	for {
		part, err := e.in.ReadSlice('\n')
		e.data = append(e.data, part...)
		switch {
		case err == nil:
			e.data = e.data[:len(e.data)-1]
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		case len(e.data) > maxEventBytes:
			return errLongEvent
		}
	}
}

// hasText tells whether an event has a key of these with a string that is not empty. A key
// within a string cannot be mistaken for one, as its quotes are escaped there. Decoding each event
// would cost more than some servers take to make it.
func hasText(data []byte, keys [][]byte) bool {
	for _, key := range keys {
		for rest := data; ; {
			_, after, ok := bytes.Cut(rest, key)
			if !ok {
				break
			}
			value := bytes.TrimLeft(after, " ")
			if len(value) > 1 && value[0] == '"' && value[1] != '"' {
				return true
			}
			rest = after
		}
	}
	return false
}

// Keys of text: reasoning is text that the user waits for, too.
var textKeys = map[Endpoint][][]byte{
	Chat:        {[]byte(`"content":`), []byte(`"reasoning_content":`), []byte(`"reasoning":`)},
	Completions: {[]byte(`"text":`)},
}
