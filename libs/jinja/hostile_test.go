package jinja

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

func hostile() map[string]string {
	double := "{% set x = x ~ x %}"
	grow := func(body string) string {
		return "{% set n = namespace(x='ab', l=['ab'], d={}) %}{% for i in range(100000) %}" + body + "{% endfor %}"
	}
	return map[string]string{
		"endless recursion":       "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"mutual recursion":        "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
		"recursion by caller":     "{% set n = namespace() %}{% macro m() %}{% set n.c = caller %}{{ caller() }}{% endmacro %}{% call m() %}{{ n.c() }}{% endcall %}",
		"recursion in a slice":    "{% macro f() %}{{ 'ab'[f():f()] }}{% endmacro %}{{ f() }}",
		"recursion that branches": "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) ~ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
		"recursion of a loop":     "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"recursion of high terms": "{% macro f() %}{{ " + strings.Repeat("(", 60) + "f()" + strings.Repeat(")", 60) + " }}{% endmacro %}{{ f() }}",
		"recursion by a default":  "{% macro f(a=f()) %}{% endmacro %}{{ f() }}",
		"a long range":            "{% for i in range(1000000000) %}{% endfor %}",
		"nested loops":            strings.Repeat("{% for i in range(1000) %}", 4) + strings.Repeat("{% endfor %}", 4),
		"many long ranges":        strings.Repeat("{% for i in range(100000) %}{% endfor %}", 100),
		"doubling":                "{% set x = 'ab' %}" + strings.Repeat(double, 64),
		"doubling in a loop":      grow("{% set n.x = n.x ~ n.x %}"),
		"doubling with +":         grow("{% set n.x = n.x + n.x %}"),
		"doubling by replace":     grow("{% set n.x = n.x.replace('a', n.x) %}"),
		"doubling by empty":       grow("{% set n.x = n.x.replace('', n.x) %}"),
		"doubling by join":        grow("{% set n.x = n.x|join(n.x) %}"),
		"doubling by format":      grow("{% set n.x = '%s%s' % (n.x, n.x) %}"),
		"doubling by str.format":  grow("{% set n.x = '{0}{0}'.format(n.x) %}"),
		"doubling by a filter":    grow("{% set n.x = n.x|replace('b', n.x) %}"),
		"doubling by tojson":      grow("{% set n.x = n.x|tojson|tojson %}"),
		"doubling by repr":        grow("{% set n.l = [n.l|string, n.l|string] %}"),
		"doubling lists":          grow("{% set n.l = n.l + n.l %}"),
		"doubling nested lists":   grow("{% set n.l = [n.l, n.l] %}") + "{{ n.l }}",
		"a shared list printed":   "{% set x = ['ab'] %}" + strings.Repeat("{% set x = [x, x] %}", 40) + "{{ x }}",
		"a shared list as JSON":   "{% set x = ['ab'] %}" + strings.Repeat("{% set x = [x, x] %}", 40) + "{{ x|tojson }}",
		"long lists compared":     "{% set a = [1] * 60000 %}{% set b = [1] * 60000 %}{% for i in range(10000) %}{% set x = a == b %}{% endfor %}",
		"long numbers":            "{% set a = '7' * 100000 %}{% for i in range(10000) %}{% set x = a|int + a|float %}{% endfor %}",
		"blanks before a number":  "{% set a = ' ' * 1000000 ~ '1' %}{% for i in range(10000) %}{% set x = a|int %}{% endfor %}",
		"far remainders":          "{% for i in range(1000000) %}{% set x = 1e308 % 1e-300 %}{% endfor %}",
		"shared lists compared":   "{% set x = ['ab'] %}{% set y = ['ab'] %}" + strings.Repeat("{% set x = [x, x] %}{% set y = [y, y] %}", 40) + "{{ x == y }}",
		"shared lists ordered":    "{% set x = ['ab'] %}{% set y = ['ab'] %}" + strings.Repeat("{% set x = [x, x] %}{% set y = [y, y] %}", 40) + "{{ x < y }}",
		"a shared list as key":    "{% set x = ('ab',) %}" + strings.Repeat("{% set x = (x, x) %}", 40) + "{{ {x: 1} }}",
		"doubling by arguments":   "{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('ab') }}",
		"doubling by spread":      "{% macro f() %}{{ f(*(varargs + varargs)) }}{% endmacro %}{{ f(1) }}",
		"a spread in a loop":      "{% macro f() %}{{ varargs }}{% endmacro %}{% set l = range(100000)|list %}{% for i in l %}{% set x = f(*l) %}{% endfor %}",
		"doubling by a caller":    "{% macro m(x) %}{{ caller(x ~ x) }}{% endmacro %}{% set x = 'ab' %}" + strings.Repeat("{% call(x) m(x) %}", 50) + strings.Repeat("{% endcall %}", 50),
		"doubling by loops":       "{% set x = 'ab' %}" + strings.Repeat("{% for x in [x ~ x] %}", 60) + strings.Repeat("{% endfor %}", 60),
		"doubling by blocks":      "{% set x = 'ab' %}" + strings.Repeat("{% set x %}{{ x }}{{ x }}{% endset %}", 60),
		"doubling by case":        "{% set x = 'ΐ' * 100000 %}" + grow("{% set y = x.upper() %}"),
		"repetition":              "{{ 'ab' * 1000000000 }}",
		"repetition of a list":    "{{ [1] * 1000000000 }}",
		"repetition of a chat":    "{% set x = c * 1000000 %}{{ x * 1000000 }}",
		"huge repetition":         "{{ 'ab' * 9223372036854775807 }}",
		"a huge power":            "{{ 10 ** 1000000000 }}",
		"a tower":                 "{{ 9 ** 9 ** 9 ** 9 ** 9 }}",
		"squares":                 grow("{% set n.x = 10 if i == 0 else n.x * n.x %}"),
		"a wide format":           "{{ '%1000000000d' % 1 }}",
		"a precise format":        "{{ '%.1000000000f' % 1.5 }}",
		"a width as a value":      "{{ '%*d' % (1000000000, 1) }}",
		"a precise integer":       "{{ '%.1000000000d' % 1 }}",
		"a wide str.format":       "{{ '{:1000000000}'.format(1) }}",
		"a wide group":            "{{ '{:01000000000,}'.format(1) }}",
		"center":                  "{{ 'a'.center(1000000000) }}",
		"ljust":                   "{{ 'a'.ljust(1000000000) }}",
		"zfill":                   "{{ 'a'.zfill(1000000000) }}",
		"filter center":           "{{ 'a'|center(1000000000) }}",
		"expandtabs":              "{{ '\t'.expandtabs(1000000000) }}",
		"indent":                  "{{ 'a'|indent(1000000000) }}",
		"much indent":             "{{ ('a\n' * 10000)|indent(10000) }}",
		"indented JSON":           "{{ [[[1]]]|tojson(indent=1000000000) }}",
		"indent by a text":        "{{ ([1] * 10000)|tojson(indent=' ' * 10000) }}",
		"separators":              "{{ ([1] * 10000)|tojson(separators=(',' * 10000, ':')) }}",
		"batch":                   "{{ [1]|batch(1000000000, 0)|list }}",
		"slice":                   "{{ [1]|slice(1000000000, 0)|list }}",
		"empty slices":            "{{ [1]|slice(1000000000)|list }}",
		"a stride":                "{% set x = 'a' * 1000000 %}" + grow("{% set y = x[::2] %}"),
		"splits":                  "{% set x = 'a' * 100000 %}" + grow("{% set y = x.split('a') %}"),
		"lists of characters":     "{% set x = 'a' * 100000 %}" + grow("{% set y = x|list %}"),
		"sorts":                   "{% set x = range(100000)|list %}" + grow("{% set y = x|sort(reverse=true) %}"),
		"uniques":                 "{% set x = range(100000) %}" + grow("{% set y = x|unique|list %}"),
		"groups":                  "{% set x = range(1000)|list %}" + grow("{% set y = x|groupby('real') %}"),
		"sums of lists":           "{{ ([[1] * 1000] * 1000)|sum(start=[]) }}",
		"searches":                "{% set x = 'a' * 100000 %}" + grow("{% set y = (x ~ 'b') in x %}"),
		"bad searches":            "{% set x = 'a' * 50000 %}{% set y = 'a' * 20000 ~ 'b' ~ 'a' * 20000 %}" + grow("{% set z = y in x %}"),
		"counts":                  "{% set x = 'ab' * 50000 %}" + grow("{% set y = x.count('a') %}"),
		"last characters":         "{% set x = 'é' * 100000 %}" + grow("{% set y = x[-1] %}"),
		"lengths":                 "{% set x = 'é' * 100000 %}" + grow("{% set y = x|length %}"),
		"lists searched":          "{% set x = range(100000)|list %}" + grow("{% set y = -1 in x %}"),
		"last of a range":         grow("{% set y = range(100000)|last %}"),
		"comparisons":             "{% set x = 'a' * 100000 %}{% set y = 'a' * 100000 %}" + grow("{% set z = x == y %}"),
		"trims":                   "{% set x = ' ' * 100000 %}" + grow("{% set y = x|trim %}"),
		"trims of many":           "{% set x = 'a' * 1000 %}{% set y = 'b' * 100000 ~ 'a' %}" + grow("{% set z = x.strip(y) %}"),
		"wide literals":           grow("{% set y = [" + strings.Repeat("i,", 10000) + "] %}"),
		"wide comparisons":        grow("{% set y = 1" + strings.Repeat(" == 1", 10000) + " %}"),
		"wide dicts":              grow("{% set y = dict(n.d, **{i|string: 1}) %}{% set n.d = {(i, n.x): n.d} %}"),
		"a growing dict":          "{% set n = namespace() %}{% set k = namespace(d={}) %}{% for i in range(100000) %}{% set k.d = dict(k.d, **{i|string: 1}) %}{% endfor %}",
		"much text":               "{% for i in range(100000) %}" + strings.Repeat("text ", 100) + "{% endfor %}",
		"much text in macros":     "{% macro f() %}" + strings.Repeat("text ", 1000) + "{% endmacro %}{% for i in range(100000) %}{% set x = f() %}{% endfor %}",
		"much output":             "{% set x = '" + strings.Repeat("a", 4000) + "' %}{% for i in range(100000) %}{{ x }}{% endfor %}",
		"escapes that grow":       `{{ '"\\' ` + strings.Repeat("| tojson ", 60) + "}}",
		"HTML that grows":         grow("{% set n.x = (n.x ~ '&')|e|string %}{% set n.x = n.x ~ n.x %}"),
		"an object in itself":     "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
		"two objects in each":     "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = [b] %}{{ a }}",
		"a deep list":             "{% set n = namespace(x=[]) %}{% for i in range(10000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
		"a deep list as JSON":     "{% set n = namespace(x=[]) %}{% for i in range(10000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x|tojson }}",
		"deep lists compared":     "{% set n = namespace(x=[], y=[]) %}{% for i in range(10000) %}{% set n.x = [n.x] %}{% set n.y = [n.y] %}{% endfor %}{{ n.x == n.y }}",
		"a deep key":              "{% set n = namespace(x=()) %}{% for i in range(10000) %}{% set n.x = (n.x,) %}{% endfor %}{{ {n.x: 1} }}",
		"deep generators":         "{% set n = namespace(x=[1]) %}{% for i in range(100000) %}{% set n.x = n.x|map('abs') %}{% endfor %}{{ n.x|list }}",
		"deep enough generators":  "{% set n = namespace(x=[1]) %}{% for i in range(1000) %}{% set n.x = n.x|map('abs') %}{% endfor %}{{ n.x|list }}",
		"deep selections":         "{% set n = namespace(x=[1]) %}{% for i in range(100000) %}{% set n.x = n.x|select %}{% endfor %}{{ n.x|list }}",
		"deep uniques":            "{% set n = namespace(x=[1]) %}{% for i in range(100000) %}{% set n.x = n.x|unique %}{% endfor %}{{ n.x|list }}",
		"deep batches":            "{% set n = namespace(x=[1]) %}{% for i in range(100000) %}{% set n.x = n.x|batch(1) %}{% endfor %}{{ n.x|list }}",
		"map by map":              "{{ [[1]]" + strings.Repeat("|map('map', 'list')", 10) + "|list }}" + "{% for i in range(1000000) %}{% endfor %}",
		"a macro for each macro":  grow("{% macro f() %}{{ i }}{% endmacro %}{% set n.l = [f, n.l] %}"),
		"namespaces":              grow("{% set n.x = namespace(x=n.x) %}"),
		"many namespaces":         grow("{% set y = namespace(a=1, b=2, c=3) %}"),
		"calls of methods":        grow("{% set y = 'abc'.upper().lower().title().strip() %}"),
		"runs of both":            "{% set x = c ~ 'a' %}" + grow("{% set n.x = n.x ~ x %}"),
		"a mixed repetition":      "{{ (c ~ 'a') * 1000000000 }}",
		"joins of both":           "{% set x = [c] * 10000 %}" + grow("{% set y = x|join('-') %}"),
		"cuts of both":            "{% set x = (c ~ 'a') * 10000 %}" + grow("{% set y = x[1:] %}"),
		"splits of both":          "{% set x = (c ~ 'a') * 10000 %}" + grow("{% set y = x.split('a') %}"),
		"fields in fields":        "{{ '{:{}}'.format('a', 1000000000) }}",
		"loops looked ahead":      "{% for i in range(100000)|map('string') %}{{ loop.length }}{% for j in range(100000)|map('string') %}{{ loop.length }}{% endfor %}{% endfor %}",
		"cyclers":                 grow("{% set y = cycler(*range(10000)) %}"),
		"keyword arguments":       grow("{% set n.d = dict(n.d, **{'k' ~ i: i}) %}"),
	}
}

// measure renders and says what it allocated.
func measure(t *testing.T, source string) (allocatedBytes uint64, took time.Duration, err error) {
	t.Helper()
	tmpl, err := Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	_, err = tmpl.Render(t.Context(), []Variable{{"c", Chat("chat")}}, 100, Limits{})
	took = time.Since(start)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, took, err
}

func TestAHostileTemplateCostsLittle(t *testing.T) {
	const maxBytes = 16 << 20
	for name, source := range hostile() {
		allocated, took, err := measure(t, source)
		t.Logf("%-26s %6d KiB %8s %v", name, allocated>>10, took.Round(time.Microsecond*100), err)
		if !errors.Is(err, ErrLimit) {
			t.Errorf("%s: error %v, want a limit", name, err)
		}
		if allocated > maxBytes {
			t.Errorf("%s: allocated %d bytes, want at most %d", name, allocated, maxBytes)
		}
	}
}

func TestADeadlineEndsARendering(t *testing.T) {
	tmpl, err := Parse("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	limits := Limits{Steps: 1 << 60, Memory: 1 << 60, Time: time.Millisecond}
	if _, err := tmpl.Render(t.Context(), nil, 0, limits); !errors.Is(err, ErrLimit) {
		t.Errorf("error %v, want a limit", err)
	}
	limits.Time = 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := tmpl.Render(ctx, nil, 0, limits); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
}
