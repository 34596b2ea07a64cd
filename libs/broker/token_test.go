package broker

import (
	"strings"
	"testing"
)

func TestAnyTextMakesATokenOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{"a", "a.b", "a*", "a>", "a b", "a_b", "ü", strings.Repeat("x", 100), "sha256-x_"} {
		got := Token(text)
		if strings.ContainsAny(got, ".*> _") || got == "" {
			t.Errorf("Token(%q) = %q, which is none", text, got)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("Token(%q) = Token(%q)", text, other)
		}
		seen[got] = text
	}
}
