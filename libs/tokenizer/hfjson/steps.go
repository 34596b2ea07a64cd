package hfjson

import (
	"encoding/base64"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// stepReader reads the options of a step, whose type and path are there.
type stepReader func(o *object, s *spec.Step)

// family is a family of steps: how its sequence names its members, and its types.
type family struct {
	elements string
	types    map[string]stepReader
}

func noOptions(*object, *spec.Step) {}

func normalizers() family {
	return family{"normalizers", map[string]stepReader{
		"NFC": noOptions, "NFD": noOptions, "NFKC": noOptions, "NFKD": noOptions, "Nmt": noOptions,
		"Lowercase": noOptions, "StripAccents": noOptions, "ByteLevel": noOptions,
		"BertNormalizer": bertNormalizer,
		"Precompiled":    precompiled,
		"Prepend":        func(o *object, s *spec.Step) { s.Content = o.text("prepend") },
		"Replace":        replace,
		"Strip": func(o *object, s *spec.Step) {
			s.Left, s.Right = number(o.flag("strip_left")), number(o.flag("strip_right"))
		},
	}}
}

func preTokenizers() family {
	return family{"pretokenizers", map[string]stepReader{
		"BertPreTokenizer": noOptions, "Whitespace": noOptions, "WhitespaceSplit": noOptions, "UnicodeScripts": noOptions,
		"ByteLevel":          byteLevel,
		"CharDelimiterSplit": func(o *object, s *spec.Step) { s.Pattern = o.character("delimiter") },
		"Digits":             func(o *object, s *spec.Step) { s.IndividualDigits = o.option("individual_digits", false) },
		"Metaspace":          metaspace,
		"Punctuation":        func(o *object, s *spec.Step) { s.Behavior = behavior(o) },
		"Split": func(o *object, s *spec.Step) {
			pattern(o, s)
			s.Behavior, s.Invert = behavior(o), o.option("invert", false)
		},
	}}
}

func decoders() family {
	return family{"decoders", map[string]stepReader{
		"ByteFallback": noOptions, "Fuse": noOptions,
		"ByteLevel": byteLevel,
		"Metaspace": metaspace,
		"Replace":   replace,
		"Strip": func(o *object, s *spec.Step) {
			s.Content, s.Left, s.Right = o.character("content"), o.count("start"), o.count("stop")
		},
	}}
}

// steps reads a normalizer, a pre-tokenizer or a decoder; null has none.
func steps(path string, value jsontext.Value, of family) ([]spec.Step, error) {
	return appendSteps(nil, path, value, of, 0)
}

func appendSteps(dst []spec.Step, path string, value jsontext.Value, of family, depth int) ([]spec.Step, error) {
	if value.Kind() == 'n' {
		return dst, nil
	}
	o := newObject(path, value)
	kind := o.text("type")
	if kind == "Sequence" {
		elements := o.need(of.elements, '[')
		if err := o.close(); err != nil {
			return nil, err
		}
		err := each(join(path, of.elements), elements, depth, func(path string, value jsontext.Value) (err error) {
			dst, err = appendSteps(dst, path, value, of, depth+1)
			return err
		})
		return dst, err
	}
	read, ok := of.types[kind]
	if o.err == nil && !ok {
		return nil, fmt.Errorf("%s is %q, which is not done", join(path, "type"), clip(kind))
	}
	s := spec.Step{Path: path, Type: kind}
	if ok {
		read(&o, &s)
	}
	return append(dst, s), o.close()
}

func bertNormalizer(o *object, s *spec.Step) {
	s.CleanText, s.ChineseChars, s.Lowercase = o.flag("clean_text"), o.flag("handle_chinese_chars"), o.flag("lowercase")
	s.StripAccents = o.option("strip_accents", s.Lowercase)
}

func byteLevel(o *object, s *spec.Step) {
	s.AddPrefixSpace, s.UseRegex = o.flag("add_prefix_space"), o.option("use_regex", true)
	o.option("trim_offsets", true)
}

// metaspace also reads the form of old files, in which a flag stands for the scheme.
func metaspace(o *object, s *spec.Step) {
	s.Replacement, s.Split = o.character("replacement"), o.option("split", true)
	o.value("str_rep") // the replacement once more, in old files
	prefix := o.option("add_prefix_space", true)
	_, given := o.value("prepend_scheme")
	s.PrependScheme = o.choice("prepend_scheme", "always", "first", "never")
	if prefix {
		return
	}
	if given && s.PrependScheme != "never" {
		o.fail("add_prefix_space", "is false, but prepend_scheme is %q", s.PrependScheme)
	}
	s.PrependScheme = "never"
}

func replace(o *object, s *spec.Step) {
	pattern(o, s)
	s.Content = o.text("content")
}

// pattern reads {"String": …} or {"Regex": …}.
func pattern(o *object, s *spec.Step) {
	value := o.need("pattern", '{')
	if value == nil {
		return
	}
	p := newObject(join(o.path, "pattern"), value)
	name := "String"
	if _, s.Regex = p.value("Regex"); s.Regex {
		name = "Regex"
	}
	s.Pattern = p.text(name)
	o.err = p.close()
}

func behavior(o *object) string {
	return o.choice("behavior", "Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")
}

func precompiled(o *object, s *spec.Step) {
	text := o.text("precompiled_charsmap")
	var err error
	if s.Charsmap, err = base64.StdEncoding.DecodeString(text); err != nil {
		o.fail("precompiled_charsmap", "is no base64: %v", err)
	}
}

func number(flag bool) int {
	if flag {
		return 1
	}
	return 0
}
