"""Asks Jinja2 itself what templates give, for TestAnswersAreThoseOfJinja2.

    python3 oracle.py snippets.txt 800 7 > answers.json      those of snippets.txt, and of 800 generated ones
    python3 oracle.py snippets.txt 50000 8 > /tmp/more.json   then JINJA_ANSWERS=/tmp/more.json go test .

Wants python3-jinja2. The environment is that of Hugging Face's apply_chat_template.
"""

import copy
import datetime
import json
import random
import re
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(lineno)

    @jinja2.pass_eval_context
    def _run(self, context, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(format):
    return datetime.datetime(2026, 1, 2, 3, 4, 5).strftime(format)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)

VARIABLES = {
    "n": 7, "m": -3, "z": 0, "f": 2.5, "g": -0.125, "t": True, "no": None, "big": 2**62,
    "s": "Hello, World", "e": "", "u": "Straße ÉÀ 東京 ñ", "w": "  two  words\t\n", "q": "it's \"q\"\\ \n\t\x01é",
    "ml": "a\nbb\r\n\nccc\x0bd", "x": "abcabc", "num": "42", "fl": "3.25",
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "lm": [1, "a", None, 2.5, True, [1], {"k": "v"}],
    "d": {"b": 1, "a": 2, "items": 3, "c": {"x": [1, {"y": "deep"}]}}, "de": {},
    "users": [{"name": "Bob", "age": 30, "ok": True}, {"name": "alice", "age": 25, "ok": False}, {"name": "Carol", "age": 30}],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}, {"v": 5, "kids": []}],
}


def answer(source):
    try:
        text = env.from_string(source).render(**copy.deepcopy(VARIABLES))
        if re.search(r" at 0x[0-9a-f]+>|<(bound|built-in) method|<function|<class", text):
            return None  # has addresses in it
        return [source, "ok", text]
    except Exception as e:
        return [source, "err", type(e).__name__ + ": " + str(e)]


NAMES = "n m z f g t no big s e u w q ml x num fl l ls le lm d de users".split()
BINARY = "+ - * / // % ~ == != < <= > >= and or in".split() + ["not in"]
FILTERS = """upper lower title capitalize trim string list length first last join reverse|list sort unique|list int float abs round sum min max
tojson default('D') default('D',true) items|list dictsort escape safe wordcount batch(2)|list slice(2)|list indent truncate(5) center(12)
replace('a','X') join('-') map('string')|list select|list reject|list map('upper')|join(',') count e d('x') indent(2,true) indent(2,true,true)
tojson(indent=2) tojson(sort_keys=true) tojson(ensure_ascii=true) tojson(separators=(',',':')) round(1) round(1,'floor') round(-1) int(5) float(1.5)
sort(reverse=true) sort(attribute='name') map(attribute='name')|list selectattr('ok')|list groupby('age')|list max(attribute='age') sum(attribute='age')
format(1) truncate(5,true,'..',0) first|default('none') last|string unique(true)|list batch(3,'f')|list""".split()
TESTS = """defined undefined none boolean true false integer float number string mapping sequence iterable callable odd even lower upper
divisibleby(3) eq(7) ne(1) lt(5) gt(2) ge(7) le(0) in([1,7]) sameas(none) in('abc') escaped""".split()
METHODS = """upper() lower() title() capitalize() strip() lstrip() rstrip() split() split(',') split('a',1) rsplit() rsplit('b',1) rsplit(none,1) split(none,1)
splitlines() splitlines(true) startswith('a') endswith('c') startswith(('H','a')) find('b') rfind('b') count('a') count('') replace('a','') replace('','-')
replace('b','xx',1) join(['1','2']) center(9) center(10,'*') ljust(15,'.') rjust(15) zfill(8) isdigit() isalpha() isalnum() isspace() isupper() islower()
istitle() isnumeric() isdecimal() isidentifier() isprintable() isascii() swapcase() casefold() partition('b') rpartition('b') removeprefix('ab')
removesuffix('bc') expandtabs() expandtabs(3) index('c') find('c',3) find('c',-3,5) strip('ad') lstrip('a') rstrip('c') encode items() keys()|list
values()|list get('a') get('zz') get('zz',9) copy() index(2) count(3) keys() values() items pop() append(1) foo foo.bar a b c.x[1].y __class__""".split()
SUBSCRIPTS = """0 -1 1 5 'a' 'items' 'upper' none 1.0 true 1: :2 -2: :-1 ::2 ::-1 1:3 3:1 5:1:-2 -1::-1 ::0 :100 n: m: z:z""".split()


def atom(r):
    return r.choice([
        lambda: r.choice(NAMES), lambda: r.choice(NAMES), lambda: r.choice(NAMES), lambda: "nope",
        lambda: r.choice(["1", "0", "-2", "3.0", "1e3", "'a'", "''", "'b' 'c'", "none", "true", "false", "[]", "[1,'a']", "{}", "{'a':1}", "(1,2)", "range(3)"]),
    ])()


def expression(r, depth):
    if depth == 0:
        return atom(r)
    a = expression(r, depth - 1)
    kind = r.randrange(10)
    if kind < 2:
        return f"{a} {r.choice(BINARY)} {expression(r, depth - 1)}"
    if kind == 2:
        return f"({a}) {r.choice(BINARY)} {expression(r, depth - 1)} {r.choice(BINARY)} {atom(r)}"
    if kind == 3:
        return f"{a} | {r.choice(FILTERS)}"
    if kind == 4:
        return f"({a}) is {r.choice(['', 'not '])}{r.choice(TESTS)}"
    if kind == 5:
        return f"({a}).{r.choice(METHODS)}"
    if kind == 6:
        return f"({a})[{r.choice(SUBSCRIPTS)}]"
    if kind == 7:
        return f"{a} if {atom(r)} else {atom(r)}" if r.random() < 0.7 else f"{a} if {atom(r)}"
    if kind == 8:
        return r.choice(["not ", "-", "+", "- -"]) + a
    return r.choice(["[{0}, 1]", "{{'k': {0}}}", "({0},)", "({0})"]).format(a)


FORMATS = """%s %r %d %i %x %o %X %e %f %g %G %c %% %5s %-5s| %05d %+d %.2f %.3s %8.3f %*d %(a)s %s-%s %#x %#o %a %5% %z % %.0f %#.0f %10.4g %-8d| %.10d %u""".split()
SPECS = """{} {0} {0}{0} {!r} {!s:>8} {:5} {:<8}| {:>8} {:^9} {:*^9} {:05} {:+} {:,} {:.2f} {:.3} {:e} {:g} {:x} {:#b} {:o} {:%} {:d} {:s} {0[0]} {0.real}
{0[a]} {a} {:{}} {:=+8} {:_} {{}} {{{}}} { } {:c} {0.__class__} {:012,} {:.1%} {:10.3e} {!a} {:.0f} {:#.0f} {:#g} {:n}""".split()


def snippet(r):
    kind = r.randrange(20)
    if kind < 12:
        return "{{ " + expression(r, r.choice([1, 1, 2, 2, 3])) + " }}"
    if kind == 12:
        return "{{ '%s' %% %s }}" % (r.choice(FORMATS), r.choice([atom(r), f"({atom(r)}, {atom(r)})"]))
    if kind == 13:
        return "{{ '%s'.format(%s, %s) }}" % (r.choice(SPECS), atom(r), atom(r))
    if kind < 17:
        return blocks(r)
    return layout(r)


def blocks(r):
    e = lambda: expression(r, r.choice([0, 1]))
    return r.choice([
        lambda: f"{{% for i in {e()} %}}{{{{ i }}}}{{{{ loop.index }}}}/{{{{ loop.length }}}}{{{{ ',' if not loop.last }}}}{{% else %}}E{{% endfor %}}",
        lambda: f"{{% for i in {e()} if {e()} %}}{{{{ loop.revindex0 }}}}{{{{ loop.nextitem }}}}|{{{{ loop.previtem }}}};{{% endfor %}}",
        lambda: f"{{% for a, b in {e()} %}}{{{{ a }}}}={{{{ b }}}};{{% endfor %}}",
        lambda: f"{{% for i in {e()} %}}{{% if i == {e()} %}}{{% {r.choice(['break', 'continue'])} %}}{{% endif %}}{{{{ i }}}}{{% endfor %}}",
        lambda: f"{{% set a = {e()} %}}{{% set b = {e()} %}}{{{{ a }}}}{{{{ b }}}}",
        lambda: f"{{% set ns = namespace(a={e()}) %}}{{% for i in {e()} %}}{{% set ns.a = ns.a ~ i %}}{{% set c = i %}}{{% endfor %}}{{{{ ns.a }}}}{{{{ c }}}}",
        lambda: f"{{% macro k(a, b={e()}) %}}[{{{{ a }}}}{{{{ b }}}}{{{{ varargs }}}}{{{{ kwargs }}}}]{{% endmacro %}}{{{{ k({e()}) }}}}{{{{ k(1, 2, 3, x={e()}) }}}}",
        lambda: f"{{% if {e()} %}}A{{% elif {e()} %}}B{{% else %}}C{{% endif %}}",
        lambda: f"{{% set x2 %}}{{{{ {e()} }}}} {{% endset %}}{{{{ x2|{r.choice(FILTERS)} }}}}",
        lambda: f"{{% filter {r.choice(['upper', 'trim', 'title', 'indent', 'length', 'replace(1, 2)'])} %}}a {{{{ {e()} }}}}{{% endfilter %}}",
        lambda: f"{{% with a = {e()} %}}{{{{ a }}}}{{% endwith %}}{{{{ a }}}}",
        lambda: f"{{% macro c() %}}<{{{{ caller({e()}) }}}}>{{% endmacro %}}{{% call(v) c() %}}{{{{ v }}}}{{{{ {e()} }}}}{{% endcall %}}",
        lambda: f"{{% print {e()}, {e()} %}}",
        lambda: f"{{% generation %}}{{{{ {e()} }}}}{{% set n = 1 %}}{{% endgeneration %}}{{{{ n }}}}",
        lambda: f"{{% for i in tree recursive %}}{{{{ i.v }}}}{{{{ loop.depth }}}}({{{{ loop(i.kids) }}}}){{{{ {e()} }}}}{{% endfor %}}",
        lambda: f"{{% for i in [1,2] %}}{{{{ n }}}}{{% set n = {e()} %}}{{{{ n }}}}{{% endfor %}}{{{{ n }}}}",
        lambda: f"{{% if {e()} %}}{{% set v = 1 %}}{{% endif %}}{{{{ v }}}}{{% for i in [1] %}}{{{{ v }}}}{{% set v = 2 %}}{{% endfor %}}{{{{ v is defined }}}}",
    ])()


PIECES = ["a", " ", "\n", "  \n", "\t", "\r\n", "{{ n }}", "{{- n }}", "{{ n -}}", "{{- n -}}", "{{+ n }}", "{% if t %}", "{%- if t %}", "{% if t -%}",
          "{%+ if t %}", "{% if t +%}", "{% endif %}", "{%- endif %}", "{% endif -%}", "{%- endif -%}", "{%+ endif +%}", "{# c #}", "{#- c #}", "{# c -#}",
          "{#+ c +#}", "{% set a = 1 %}", "{%- set a = 1 -%}", "{% for i in l %}", "{%- for i in l -%}", "{% endfor %}", "{%- endfor %}", "{% raw %}", "{%- raw -%}",
          "{% endraw %}", "{%- endraw -%}", "{{ '}}' }}", "{{ {'a': {}} }}", "{", "}", "%}", "}}", "\xa0", "{{ }}", "{% else %}"]


def layout(r):
    return "".join(r.choice(PIECES) for _ in range(r.randrange(2, 9)))


def main():
    # A snippet is a line of the file, a Python string if it begins with a quote.
    lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
    sources = [eval(line) if line[0] in "'\"" else line for line in lines if line and line[0] != "#"]
    r = random.Random(int(sys.argv[3]))
    sources += sorted({snippet(r) for _ in range(int(sys.argv[2]))})
    answers = [a for a in map(answer, sources) if a is not None]
    json.dump({"variables": VARIABLES, "answers": answers}, sys.stdout, ensure_ascii=False, indent=0)
    print()


main()
