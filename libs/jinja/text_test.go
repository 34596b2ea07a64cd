package jinja

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// mixing has what templates do with texts of the chat, and what comes of it: what the chat
// wrote stands in « ».
func mixing() map[string]string {
	return map[string]string{
		"a": "<s>{{ c }}</s>",
		"b": "{{ '<s>' + c + '</s>' }}{{ '<s>' ~ c ~ '</s>' }}",
		"c": "{% set x = '<s>' + c %}{{ x + '</s>' }}{{ x[1:5] }}{{ x[::-1] }}{{ x * 2 }}",
		"d": "{{ '<s>%s</s>%d' % (c, 5) }}{{ '<s>{}</s>{:>7}'.format(c, c) }}{{ '%-7s|' % c }}",
		"e": "{{ ['<s>', c, '</s>']|join('<|>') }}{{ '<|>'.join([c, c]) }}",
		"f": "{% macro m(x) %}<s>{{ x }}</s>{% endmacro %}{{ m(c)|trim|upper }}{% set y %}<s>{{ c }}{% endset %}{{ y }}",
		"g": "{% macro m() %}<s>{{ caller() }}{% endmacro %}{% call m() %}{{ c }}!{% endcall %}{% filter upper %}<s>{{ c }}{% endfilter %}",
		"h": "{{ ('<s>' ~ c).replace('c', '<c>') }}{{ c.replace('h', '<h>') }}{{ '<s>'.replace('s', c) }}",
		"i": "{{ ('<s> ' ~ c ~ ' </s>').split() }}{{ ('<s>' ~ c).partition('>')|join('|') }}",
		"j": "{{ [c, '<s>'] }}{{ {'<s>': c} }}",
		"k": "{{ c|tojson }}{{ '<s>'|tojson }}{{ [c]|tojson }}{{ {'<s>': '</s>'}|tojson(indent=1) }}",
		"l": "{{ ('<s>\n' ~ c ~ '\n</s>')|indent(2) }}",
		"m": "{{ c|length }}{{ c.find('a') }}{{ 5 }}{{ i }}{{ i + 1 }}{{ '%d' % i }}{{ i|string }}{{ no }}",
		"n": "{{ d }}{{ d|tojson }}{% for k, v in d.items() %}<{{ k }}>{{ v }}{% endfor %}",
		"o": "{{ c if c else '<s>' }}{{ c == 'chat' }}{{ 'h' in c }}{{ c.startswith('c') }}",
		"p": "{{ ('<s>' ~ c)|title }}{{ ('<s>' ~ c)|truncate(6, true, '<e>', 0) }}{{ ('<s>' ~ c)|escape }}{{ c|center(8) }}|",
		"q": "{{ c|first }}{{ c|list|last }}{{ c|reverse }}{{ [c, 'b', '<s>']|sort|join }}{{ (c ~ ',<s>').split(',')[1] }}",
		"r": "{% for i in ['<s>', c] %}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}",
		"t": "{{ dict(**d) }}{% macro m() %}{{ kwargs }}{% endmacro %}{{ m(**d) }}",
		"u": "{{ range(i) }}{% for j in range(i) %}{{ j }}{% endfor %}{{ range(2) }}{{ f(c) }}{{ f('<s>') }}",
		"s": "{% set n = namespace(x='<s>') %}{% set n.x = n.x ~ c %}{{ n.x }}{{ ('<s>' ~ c).strip('<t') }}{{ '<s>'.center(7, c[0]) }}",
	}
}

func show(t Text) string {
	var b strings.Builder
	for s, trusted := range t.All() {
		if trusted {
			b.WriteString(s)
		} else {
			b.WriteString("«" + s + "»")
		}
	}
	return b.String()
}

func TestATextKnowsWhatTheChatWrote(t *testing.T) {
	want := map[string]string{
		"a": "<s>«chat»</s>",
		"b": "<s>«chat»</s><s>«chat»</s>",
		"c": "<s>«chat»</s>s>«ch»«tahc»>s<<s>«chat»<s>«chat»",
		"d": "<s>«chat»</s>5<s>«chat»</s>   «chatchat»   |",
		"e": "<s><|>«chat»<|></s>«chat»<|>«chat»",
		"f": "<S>«CHAT»</S><s>«chat»",
		"g": "<s>«chat»!<S>«CHAT»",
		"h": "<s><c>«hatc»<h>«at»<«chat»>",
		"i": "['<s>', '«chat', '»</s>']<s|>|«chat»",
		"j": "['«chat', '»<s>']{'<s>': '«chat'}»",
		"k": "\"«chat\"»\"<s>\"[\"«chat\"]»{\n \"<s>\": \"</s>\"\n}",
		"l": "<s>\n  «chat\n  »</s>",
		"m": "«42»5«3433None»",
		"n": "{'«k': 'chat'}»{\"«k\": \"chat\"}»<«k»>«chat»",
		"o": "«chat»TrueTrueTrue",
		"p": "<S>«chat»<s><e>&lt;s&gt;«chat»  «chat»  |",
		"q": "«cttahc»<s>b«chat»<s>",
		"r": "<s>,«chat»",
		"t": "{'«k': 'chat'}»{'«k': 'chat'}»",
		"u": "«range(0, 3)012»range(0, 2)«CHAT»<S>",
		"s": "<s>«chat»s>«cha»«cc»<s>«cc»",
	}
	var d Dict
	d.Set("k", true, Chat("chat"))
	upper := Func("f", func(a []Value, _ func(int) error) (Value, error) { return String(strings.ToUpper(a[0].str)), nil })
	variables := []Variable{{"f", upper}, {"c", Chat("chat")}, {"i", Int(3).OfChat()}, {"no", None().OfChat()}, {"d", d.Value()}}
	for _, name := range slices.Sorted(maps.Keys(mixing())) {
		text, err := render(t, mixing()[name], variables...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := show(text); got != strings.ReplaceAll(want[name], "»«", "") {
			t.Errorf("%s: %s\n got %s\nwant %s", name, mixing()[name], got, strings.ReplaceAll(want[name], "»«", ""))
		}
	}
}

// Property: a text cut anywhere says of each byte what the whole says.
func TestCutsKeepTheOrigin(t *testing.T) {
	text, err := render(t, "{{ 'aé' ~ c ~ 'b' ~ c ~ c ~ 'cd' }}", Variable{"c", Chat("1ß")})
	if err != nil {
		t.Fatal(err)
	}
	origins := func(v Value) (out []bool) {
		for s, chat := range v.pieces() {
			for range len(s) {
				out = append(out, chat)
			}
		}
		return out
	}
	whole, all := text.v, origins(text.v)
	for i := range len(whole.str) + 1 {
		for j := i; j <= len(whole.str); j++ {
			part := whole.cut(i, j)
			if got := origins(part); part.str != whole.str[i:j] || !slices.Equal(got, all[i:j]) {
				t.Fatalf("[%d:%d] is %q with %v, want %v", i, j, part.str, got, all[i:j])
			}
			for k := range j - i { // and cut again
				if got := origins(part.cut(k, j-i)); !slices.Equal(got, all[i+k:j]) {
					t.Fatalf("[%d:%d][%d:] has %v, want %v", i, j, k, got, all[i+k:j])
				}
			}
		}
	}
}

func TestATemplateRendersManyChatsAtOnce(t *testing.T) {
	tmpl, err := Parse("{% macro m(x, y=[1]) %}{{ x }}{{ y }}{% endmacro %}{% set n = namespace(a=c) %}{% for i in range(20) %}{% set n.a = n.a + 'b' %}{{ m(n.a)|title }}{{ nope }}{{ loop.length }}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	texts := make([]string, 8)
	for i := range texts {
		group.Go(func() {
			for range 20 {
				text, err := tmpl.Render(t.Context(), []Variable{{"c", Chat("chat")}}, 0, Limits{})
				if err != nil {
					t.Error(err)
				}
				texts[i] = text.String()
			}
		})
	}
	group.Wait()
	for _, text := range texts {
		if text == "" || text != texts[0] {
			t.Errorf("got %q and %q", text, texts[0])
		}
	}
}
