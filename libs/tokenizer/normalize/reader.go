package normalize

import (
	"encoding/base64"
	"encoding/binary"
)

// reader reads a generated table.
type reader struct {
	data []byte
	last rune
}

func newReader(table string) *reader {
	data, err := base64.RawStdEncoding.DecodeString(table)
	if err != nil {
		panic("normalize: a generated table is broken: " + err.Error())
	}
	return &reader{data: data}
}

func (r *reader) more() bool { return len(r.data) > 0 }

func (r *reader) number() int {
	v, n := binary.Uvarint(r.data)
	r.data = r.data[n:]
	return int(v)
}

// next reads a character by its distance from the last.
func (r *reader) next() rune {
	r.last += rune(r.number())
	return r.last
}

// eachClass calls set for each range of a table of classes.
func eachClass(table string, set func(lo, hi rune, class int)) {
	for r := newReader(table); r.more(); {
		lo := r.next()
		hi := lo + rune(r.number())
		set(lo, hi, r.number())
		r.last = hi + 1
	}
}
