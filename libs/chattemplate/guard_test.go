package chattemplate

import (
	"errors"
	"strings"
	"testing"
)

func TestHostileTemplatesAreRefusedBeforehand(t *testing.T) {
	for source, want := range map[string]string{
		"a\nb {{ 'a' * 1000000000 }}":                   `line 2: "{{ 'a' * 1000000000 }}": multiplication`,
		"{{ 2 ** 9 }}":                                  "multiplication",
		"{{ x.append(x) }}":                             "append is not allowed",
		"{% set f = x.update %}":                        "update is not allowed",
		"{{ '{}{}'.format(x) }}":                        "format is not allowed",
		"{{ x.replace(y, x) }}":                         "replace: argument y",
		"{{ x | replace('', x) }}":                      "empty string",
		"{{ x.replace('a', 'aa').replace('a', 'aa') }}": "longer",
		"{% set r = x.replace %}":                       "must be called",
		"{{ x | join(y) }}":                             "join: argument y",
		"{{ x | indent(n) }}":                           "indent: argument n",
		"{{ x | indent(width=100000) }}":                "indent: argument 100000",
		"{{ x | tojson(indent=y) }}":                    "indent=y",
		"{{ x | tojson(separators=(y, y)) }}":           "separators: argument y",
		"{{ x | unique }}":                              "filter unique",
		"{{ x | batch(1000000000) }}":                   "filter batch",
		"{{ x | nope }}":                                "filter nope",
		"{{ x[0:9000000000000000000:2] }}":              "a slice with a step",
		"{{ __filter_replace(x, '', x) }}":              "reserved",
		"{% set __print = 1 %}":                         "reserved",
		"{% macro __leave() %}{% endmacro %}":           "reserved",
		"{{ (x.y)(1) }}":                                "calling the result",
		"{{ [x.y][0](1) }}":                             "calling the result",
		"{{ a) ~ (b }}":                                 `')' closes nothing`,
		"{{ [a) }}":                                     `')' closes nothing`,
		"{{ [a }}":                                      `']' is missing`,
		"{{ " + strings.Repeat("(", 33) + strings.Repeat(")", 33) + " }}":    "nest deeper",
		"{{ a" + strings.Repeat(" ~ a", 65) + " }}":                          "joins 65 values",
		"{{ '" + strings.Repeat("a", 9000) + "' }}":                          "a tag has",
		strings.Repeat("x", 300<<10):                                         "has 307200 bytes",
		strings.Repeat("{% if a %}", 65) + strings.Repeat("{% endif %}", 65): "blocks nest deeper",
		"{% macro f(a=f()) %}{% endmacro %}":                                 "macro's defaults",
		"{% macro f(a=1|abs) %}{% endmacro %}":                               "macro's defaults",
		"{% filter upper %}x{% endfilter %}":                                 "filter blocks",
		"{% for (a, b) in c %}{% endfor %}":                                  "plain names",
		"{% set a.b.c = 1 %}":                                                `set of "a.b.c"`,
		"{% set a = %}":                                                      "to nothing",
		"{% endif %}":                                                        "ends no block",
		"{% if a %}":                                                         "is not ended",
		"{{ a":                                                               "not closed",
		"{% include 'x' %}":                                                  "include",
	} {
		_, err := Parse(source, Options{ControlTexts: []string{}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want one with %s", source, err, want)
		}
	}
}

func TestHostileTemplatesAreStopped(t *testing.T) {
	double := "{% set x = x ~ x %}"
	for name, source := range map[string]string{
		"endless recursion":       "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"mutual recursion":        "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
		"recursion by caller":     "{% set n = namespace() %}{% macro m() %}{% set n.c = caller %}{{ caller() }}{% endmacro %}{% call m() %}{{ n.c() }}{% endcall %}",
		"recursion in a slice":    "{% macro f() %}{{ 'ab'[f():f()] }}{% endmacro %}{{ f() }}",
		"recursion that branches": "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) ~ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
		"a long range":            "{% for i in range(1000000000) %}{% endfor %}",
		"nested loops":            strings.Repeat("{% for i in range(1000) %}", 4) + strings.Repeat("{% endfor %}", 4),
		"doubling":                "{% set x = 'ab' %}" + strings.Repeat(double, 64),
		"doubling in a loop":      "{% set n = namespace(x='ab') %}{% for i in range(64) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
		"doubling lists":          "{% set x = ['ab'] %}" + strings.Repeat("{% set x = [x, x] %}", 40) + "{{ x }}",
		"doubling by arguments":   "{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('ab') }}",
		"doubling by a caller":    "{% macro m(x) %}{{ caller(x ~ x) }}{% endmacro %}{% set x = 'ab' %}" + strings.Repeat("{% call(x) m(x) %}", 50) + strings.Repeat("{% endcall %}", 50),
		"doubling by loops":       "{% set x = 'ab' %}" + strings.Repeat("{% for x in [x ~ x] %}", 60) + strings.Repeat("{% endfor %}", 60),
		"much text":               "{% for i in range(100000) %}" + strings.Repeat("text ", 100) + "{% endfor %}",
		"much text in macros":     "{% macro f() %}" + strings.Repeat("text ", 1000) + "{% endmacro %}{% for i in range(100000) %}{% set x = f() %}{% endfor %}",
		"much output":             "{% set x = '" + strings.Repeat("a", 4000) + "' %}{% for i in range(100000) %}{{ x }}{% endfor %}",
		"escapes that grow":       `{{ '"\\' ` + strings.Repeat("| tojson ", 60) + "}}",
		"joins that grow":         "{{ 'aaaaaaaa' " + strings.Repeat("| list | join('"+strings.Repeat("b", 60)+"') ", 20) + "}}",
		"an object in itself":     "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
		"a loop in itself":        "{% for a in [1] %}{% set loop.x = loop %}{{ loop }}{% endfor %}",
		"two objects in each":     "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = [b] %}{{ a }}",
		"a deep list":             "{% set n = namespace(x=[]) %}{% for i in range(99999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
		"hidden neighbours":       "{% set n = namespace() %}{% for i in [1, 2, n] %}{% set n.l = loop %}{{ n }}{% endfor %}{% set n.m = n %}{{ n }}",
	} {
		t.Run(name, func(t *testing.T) {
			segments, err := parse(t, source).Render(t.Context(), Input{})
			if !errors.Is(err, ErrLimit) {
				t.Errorf("error %v, want a limit; %d segments", err, len(segments))
			}
		})
	}
}

func TestMethodsAreNoValues(t *testing.T) {
	for _, source := range []string{"{% set f = 'x'.split %}", "{% set n = namespace(f='x'.split) %}", "{% macro m(f) %}{% endmacro %}{{ m('x'.upper) }}"} {
		if _, err := parse(t, source).Render(t.Context(), Input{}); err == nil || !strings.Contains(err.Error(), "as a value") {
			t.Errorf("%s: error %v", source, err)
		}
	}
}

func TestMisuseIsAnError(t *testing.T) {
	for _, source := range []string{"{{ range(1, 2, 0) }}", "{{ range('a') }}", "{{ nothing() }}", "{{ strftime_now() }}", "{{ [1]|items }}", "{{ raise_exception | tojson }}"} {
		if _, err := parse(t, source).Render(t.Context(), Input{}); err == nil {
			t.Errorf("%s: no error", source)
		}
	}
}

// Instrumenting must not move white space, nor change what tags mean.
func TestTheGuardIsInvisible(t *testing.T) {
	in := chat("one", "two")
	for source, want := range map[string]string{
		"{% for m in messages %}\n\n{{ m.content }}\n{% endfor %}\nend":                         "\none\n\ntwo\nend",
		"  {% for m in messages -%}  \n {{ m.content }} {%- endfor %}":                          "onetwo",
		"{% macro f(a, b=' x= y') %}\n({{ a }}{{ b }})\n{% endmacro %}\n{{ f(1) }}":             "(1 x= y)\n",
		"{% macro m() %}<{{ caller('u') }}>{% endmacro %}{% call(v) m() %}{{ v }}{% endcall %}": "<u>",
		"{% set x %}\n  a\n{% endset %}\n[{{ x }}]":                                             "[  a\n]",
		"{% set n = namespace(a=1) %}{% set n.a = n.a + 1 %}{{ n.a }}":                          "2",
		"{{ dict(z=1, a='=', m=dict(y=2, b=3)) | tojson }}":                                     `{"z": 1, "a": "=", "m": {"y": 2, "b": 3}}`,
		"{% raw %}{{ x | nope }}{% set a %}{% endraw %}":                                        "{{ x | nope }}{% set a %}",
		"{# {{ x * 2 }} #}a{{}}b":                                                               "ab",
		"{{ '}}' ~ \"{%\" }}":                                                                   "}}{%",
		"{{ 'a' if false else 'b' }}{{ messages | length }}{{ [3, 1, 2] | sort | join('-') }}":  "b21-2-3",
		"{{ [1, 2, 3][::-1] | join(',') }}{{ 'abc'[1:] }}":                                      "3,2,1bc",
		"a\n": "a",
		"{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% if loop.last %}.{% endif %}{% endfor %}": "b1a2.",
		"{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}{{ m.content }}{% endfor %}":  "one",
	} {
		if got := render(t, source, in); got != want {
			t.Errorf("%q gives %q, want %q", source, got, want)
		}
	}
}

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

// Whatever a template is, it must neither crash nor run away.
func FuzzTemplate(f *testing.F) {
	f.Add("{% for m in messages %}{{ m.role | upper }}{{ m['content'][0:1] }}{% endfor %}")
	f.Add("{% macro f(a) %}{{ f(a ~ a) }}{% endmacro %}{{ f('x') }}")
	f.Add("{% set n = namespace(x=[1]) %}{% set n.x = n.x + [n.x] %}{{ n.x | tojson(indent=2) }}")
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse(source, Options{ControlTexts: []string{"</s>"}, Limits: Limits{Bytes: 1 << 16, Steps: 2000, Depth: 16}})
		if err != nil {
			return
		}
		segments, err := tmpl.Render(t.Context(), chat("a </s> b", "c"))
		if err == nil && len(Join(segments)) > len(source)+1<<17 {
			t.Errorf("%d bytes came out", len(Join(segments)))
		}
	})
}
