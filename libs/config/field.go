package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Field is one value of a configuration.
type Field struct {
	// Key is the way to it in the file, with dots between the levels.
	Key string
	// Flag is its name on the command line, without dashes in front.
	Flag string
	// Env is its name in the environment.
	Env string
	// Help is the text of its help tag.
	Help string
	// Default is its value when Fields was called; empty for the zero value.
	Default string

	value reflect.Value
}

// Fields lists the values of cfg, a pointer to a struct, in the order of the struct.
// It is an error if two fields share a name or one has a type that cannot be set.
func Fields(cfg any) ([]Field, error) {
	v := reflect.ValueOf(cfg)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("configuration is a %T, want a pointer to a struct", cfg)
	}
	fields, err := walk(v.Elem(), "", nil)
	if err != nil {
		return nil, err
	}
	seen := map[string]string{"config": "the name of the file"}
	for _, f := range fields {
		if other, ok := seen[f.Flag]; ok {
			return nil, fmt.Errorf("configuration field %s and %s share the flag --%s", f.Key, other, f.Flag)
		}
		seen[f.Flag] = f.Key
	}
	return fields, nil
}

func walk(v reflect.Value, prefix string, fields []Field) ([]Field, error) {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if !sf.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = strings.ToLower(sf.Name) // as the YAML package does
		}
		key := prefix + name
		var err error
		switch fv := v.Field(i); {
		case settable(fv.Type()):
			fields = append(fields, newField(key, sf.Tag.Get("help"), fv))
		case fv.Kind() != reflect.Struct:
			err = fmt.Errorf("configuration field %s has type %s, want a scalar, a []string or a struct", key, fv.Type())
		case options == "inline":
			fields, err = walk(fv, prefix, fields)
		default:
			fields, err = walk(fv, key+".", fields)
		}
		if err != nil {
			return nil, err
		}
	}
	return fields, nil
}

func newField(key, help string, v reflect.Value) Field {
	underscored := strings.ReplaceAll(key, ".", "_")
	f := Field{
		Key:   key,
		Flag:  strings.ReplaceAll(underscored, "_", "-"),
		Env:   envPrefix + strings.ToUpper(underscored),
		Help:  help,
		value: v,
	}
	if !v.IsZero() {
		f.Default = fmt.Sprint(v.Interface())
	}
	return f
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func settable(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(textType) {
		return true
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Slice:
		return t.Elem().Kind() == reflect.String
	default:
		return false
	}
}

func (f Field) isBool() bool { return f.value.Kind() == reflect.Bool }

// set parses text into the field; the error says what was expected.
func (f Field) set(text string) error {
	v := f.value
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	if !parse(v, text) {
		return fmt.Errorf("want %s", wanted(v.Type()))
	}
	return nil
}

func parse(v reflect.Value, text string) bool {
	var err error
	switch {
	case v.Type() == durationType:
		var d time.Duration
		d, err = time.ParseDuration(text)
		v.SetInt(int64(d))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
	case v.Kind() == reflect.Slice:
		setList(v, text)
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
	case v.CanUint():
		var n uint64
		n, err = strconv.ParseUint(text, 10, v.Type().Bits())
		v.SetUint(n)
	default:
		var x float64
		x, err = strconv.ParseFloat(text, v.Type().Bits())
		v.SetFloat(x)
	}
	return err == nil
}

// wanted says what a value of a settable type looks like.
func wanted(t reflect.Type) string {
	switch {
	case reflect.PointerTo(t).Implements(textType):
		return "one word"
	case t == durationType:
		return "a duration such as 1m30s"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of at most %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number, not negative, of at most %d bits", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list of texts"
	}
	return "a text"
}

func setList(v reflect.Value, text string) {
	list := reflect.MakeSlice(v.Type(), 0, 1)
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = reflect.Append(list, reflect.ValueOf(part).Convert(v.Type().Elem()))
		}
	}
	v.Set(list)
}
