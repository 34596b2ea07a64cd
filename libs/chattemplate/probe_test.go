package chattemplate

import "testing"

func TestTakesSaysWhatATemplateLooksAt(t *testing.T) {
	const loop = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
	for _, c := range []struct {
		name, source string
		want         takes
	}{
		{"contents only", loop, takes{system: true}},
		{"no system", "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}", takes{}},
		{"a system refused", "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + loop, takes{}},
		{"tools", "{% if tools %}{{ tools | tojson }}{% endif %}" + loop, takes{tools: true, system: true}},
		{"tools by name", "{% for t in tools %}{{ t.function.name }}{% endfor %}" + loop, takes{tools: true, system: true}},
		{"tool calls", loop + "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}{% endfor %}", takes{toolCalls: true, system: true}},
		{"a generation prompt", loop + "{% if add_generation_prompt %}assistant:{% endif %}", takes{generationPrompt: true, system: true}},
		{"an effort", loop + "Reasoning: {{ reasoning_effort }}", takes{reasoningEffort: true, system: true}},
		{"parts", "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}", takes{parts: true}},
		{"nothing", "{{ raise_exception('no') }}", takes{}},
		{"a hostile one", "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", takes{}},
	} {
		if got := parse(t, c.source).takes; got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
