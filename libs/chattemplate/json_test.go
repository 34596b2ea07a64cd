package chattemplate

import (
	"math/big"
	"strings"
	"testing"
)

func TestToJSONIsPythons(t *testing.T) {
	v, err := DecodeJSON([]byte(`{"z": [1, 1.0, 1e6, 1e16, 1e-5, -0.5, true, null], "a": {}, "s": "\u2028\u007f<&>\"\\\u0001é\n"}`))
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Tools: []any{v}}
	want := `{"z": [1, 1.0, 1000000.0, 1e+16, 1e-05, -0.5, true, null], "a": {}, "s": "` + "\u2028\u007f<&>" + `\"\\\u0001é\n"}`
	if got := render(t, "{{ tools[0] | tojson }}", in); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = "{\n  \"z\": [\n    1\n  ],\n  \"a\": {}\n}"
	if got := render(t, "{% set v = {'z': [1], 'a': {} } %}{{ v | tojson(indent=2) }}", in); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodeJSONRefusesOtherThanOneValue(t *testing.T) {
	for _, in := range []string{"", "{", "[1,", "1 2", "{\"a\" 1}", strings.Repeat("[", 100) + strings.Repeat("]", 100), "nope"} {
		if v, err := DecodeJSON([]byte(in)); err == nil {
			t.Errorf("%.20q gives %v", in, v)
		}
	}
	v, err := DecodeJSON([]byte(`{"b": 1, "a": 2, "b": 3}`))
	if o, ok := v.(Object); err != nil || !ok || len(o) != 2 || o[0] != (Field{"b", int64(3)}) {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestLargeIntegersAreExact(t *testing.T) {
	v, err := DecodeJSON([]byte("123456789012345678901234567890"))
	if i, ok := v.(*big.Int); err != nil || !ok || i.String() != "123456789012345678901234567890" {
		t.Fatalf("got %v, %v", v, err)
	}
	if got := render(t, "{{ x }} {{ x | tojson }} {{ x + 1 }}", Input{Variables: Object{{"x", v}}}); got != "123456789012345678901234567890 123456789012345678901234567890 123456789012345678901234567891" {
		t.Errorf("got %s", got)
	}
	if _, err := DecodeJSON([]byte(strings.Repeat("9", 2000))); err == nil {
		t.Error("an integer of 2000 digits is accepted")
	}
}
