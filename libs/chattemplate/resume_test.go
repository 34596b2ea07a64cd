package chattemplate_test

import (
	"testing"

	"github.com/switchyard-llm/switchyard/libs/chattemplate"
)

func TestResumeCutsAfterTheLastMessage(t *testing.T) {
	const ends = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
	const trims = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>{% endfor %}"
	for _, c := range []struct{ name, template, last, want string }{
		{"plain", ends, "Once upon", "<user>Once upon</user><assistant>Once upon"},
		{"a blank at the end that the template keeps", ends, "Once ", "<user>Once upon</user><assistant>Once "},
		{"a blank at the end that it does not keep", trims, " Once ", "<user>Once upon</user><assistant>Once"},
		{"no text", ends, " ", ""},
		{"a template that hides it", "{{ messages[0].content }}", "Twice", ""},
	} {
		template, err := chattemplate.Parse(c.template, chattemplate.Options{ControlTexts: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		segments, err := template.Render(t.Context(), chattemplate.Input{Messages: []chattemplate.Message{
			{Role: "user", Content: "Once upon"}, {Role: "assistant", Content: c.last},
		}})
		if err != nil {
			t.Fatal(err)
		}
		segments, err = chattemplate.Resume(segments, c.last)
		if got := chattemplate.Join(segments); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}
