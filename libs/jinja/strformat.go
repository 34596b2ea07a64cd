package jinja

import (
	"strconv"
	"strings"
)

// strFormat is str.format.
func (st *state) strFormat(format Value, a args) (Value, error) {
	if format.safe {
		return Value{}, unsafeUse("format")
	}
	d := &dict{}
	if err := d.fill(st, "format", args{named: a.named}); err != nil {
		return Value{}, err
	}
	return st.strFormatWith(format, a.plain, d)
}

func (st *state) strFormatMap(format Value, named *dict) (Value, error) {
	return st.strFormatWith(format, nil, named)
}

func (st *state) strFormatWith(format Value, plain []Value, named *dict) (Value, error) {
	f := formatter{st: st, plain: plain, named: named}
	b := builder{st: st}
	if err := f.write(&b, format, 2); err != nil {
		return Value{}, err
	}
	return b.done(), nil
}

type formatter struct {
	st    *state
	plain []Value
	named *dict
	auto  int  // the number of the next field without one
	given bool // fields have numbers
}

// write fills in a format; fields within the specification of fields are the last depth.
func (f *formatter) write(b *builder, format Value, depth int) error {
	if depth == 0 {
		return valueError("Max string recursion exceeded")
	}
	s := format.str
	for at := 0; at < len(s); {
		i := strings.IndexAny(s[at:], "{}")
		if i < 0 {
			return b.text(format.cut(at, len(s)))
		}
		if err := b.text(format.cut(at, at+i)); err != nil {
			return err
		}
		at += i
		if at+1 < len(s) && s[at+1] == s[at] {
			if err := b.text(format.cut(at, at+1)); err != nil {
				return err
			}
			at += 2
			continue
		}
		if s[at] == '}' {
			return valueError("Single '}' encountered in format string")
		}
		end := fieldEnd(s, at+1)
		if end < 0 {
			if at+1 == len(s) {
				return valueError("Single '{' encountered in format string")
			}
			return valueError("expected '}' before end of string")
		}
		if err := f.field(b, format.cut(at+1, end), depth); err != nil {
			return err
		}
		at = end + 1
	}
	return nil
}

// fieldEnd is where the bracket closes that is open before i, or -1.
func fieldEnd(s string, i int) int {
	for depth := 1; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// field writes one: name!conversion:specification.
func (f *formatter) field(b *builder, field Value, depth int) error {
	if err := f.st.step(4); err != nil {
		return err
	}
	name, spec := field, String("")
	bracket := 0
	for i := range len(field.str) {
		c := field.str[i]
		if c == '[' {
			bracket++
		} else if c == ']' && bracket > 0 {
			bracket--
		}
		if bracket == 0 && (c == ':' || c == '!') {
			name, spec = field.cut(0, i), field.cut(i, len(field.str))
			break
		}
	}
	v, err := f.lookUp(name.str)
	if err != nil {
		return err
	}
	if strings.HasPrefix(spec.str, "!") {
		if v, spec, err = f.convert(v, spec); err != nil {
			return err
		}
	}
	if strings.HasPrefix(spec.str, ":") {
		spec = spec.cut(1, len(spec.str))
	}
	if strings.ContainsAny(spec.str, "{}") {
		inner := builder{st: f.st}
		if err := f.write(&inner, spec, depth-1); err != nil {
			return err
		}
		spec = inner.done()
	}
	return f.st.formatTo(b, v, spec)
}

func (f *formatter) convert(v, spec Value) (Value, Value, error) {
	if len(spec.str) < 2 {
		return v, spec, valueError("end of string while looking for conversion specifier")
	}
	rest := spec.cut(2, len(spec.str))
	if rest.str != "" && rest.str[0] != ':' {
		return v, spec, valueError("expected ':' after conversion specifier")
	}
	var err error
	switch spec.str[1] {
	case 's':
		v, err = f.st.str(v)
	case 'r':
		v, err = f.st.repr(v)
	case 'a':
		if v, err = f.st.repr(v); err == nil {
			v, err = f.st.ascii(v)
		}
	default:
		err = valueErrorf("Unknown conversion specifier '%c'", spec.str[1])
	}
	return v, rest, err
}

// lookUp finds the value of a field such as 0.name[key].
func (f *formatter) lookUp(name string) (Value, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := f.first(name[:end])
	for rest := name[end:]; rest != "" && err == nil; {
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			if end == 1 {
				return Value{}, valueError("Empty attribute in format string")
			}
			v, err = f.st.getattr(v, rest[1:end])
			rest = rest[end:]
			continue
		}
		end := strings.IndexByte(rest, ']')
		if rest[0] != '[' || end < 0 {
			return Value{}, valueError("Missing ']' in format string")
		}
		index := String(rest[1:end])
		if i, e := strconv.ParseInt(index.str, 10, 64); e == nil && isDigit(index.str[0]) {
			index = Int(i)
		} else if index.str == "" {
			return Value{}, valueError("Empty attribute in format string")
		}
		v, err = f.st.getitem(v, index)
		if rest = rest[end+1:]; rest != "" && rest[0] != '.' && rest[0] != '[' {
			return Value{}, valueError("Only '.' or '[' may follow ']' in format field specifier")
		}
	}
	return v, err
}

func (f *formatter) first(name string) (Value, error) {
	n, err := strconv.Atoi(name)
	switch {
	case name == "":
		if f.given {
			return Value{}, valueError("cannot switch from manual field specification to automatic field numbering")
		}
		n = f.auto
		f.auto++
	case err == nil && isDigit(name[0]):
		if f.auto > 0 {
			return Value{}, valueError("cannot switch from manual field specification to automatic field numbering")
		}
		f.given = true
	default:
		if v, ok := f.named.get(name); ok {
			return v, nil
		}
		return Value{}, &pythonError{"KeyError", quote(name)}
	}
	if n >= len(f.plain) {
		return Value{}, &pythonError{"IndexError", "Replacement index " + strconv.Itoa(n) + " out of range for positional args tuple"}
	}
	return f.plain[n], nil
}
