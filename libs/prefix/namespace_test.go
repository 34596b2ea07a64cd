package prefix

import "testing"

func TestANamespaceComesApartAgain(t *testing.T) {
	for _, want := range [][3]string{{"", "", ""}, {"m", "", ""}, {"m", "l", "s"}, {"", "l", ""}, {"", "", "s"}, {"ab", "c", "\x00d"}} {
		model, lora, salt, ok := SplitNamespace(Namespace(want[0], want[1], want[2]))
		if got := [3]string{model, lora, salt}; got != want || !ok {
			t.Errorf("%q came apart as %q, %v", want, got, ok)
		}
	}
	whole := Namespace("model", "lora", "")
	for n := range len(whole) {
		if _, _, _, ok := SplitNamespace(whole[:n]); ok {
			t.Errorf("%d bytes of %d came apart", n, len(whole))
		}
	}
	if _, _, _, ok := SplitNamespace("\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x00\x00\x00abc"); ok {
		t.Error("a length beyond the string came apart")
	}
}
