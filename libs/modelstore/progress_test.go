package modelstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlainProgressIsAFewLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := NewProgress(f)
	p.Start("fetching M", 100e6)
	for done := range int64(120) {
		p.Advance(done * 1e6)
	}
	p.Finish(true)
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "fetching M: 100 MB\nfetching M: 25 %\nfetching M: 50 %\nfetching M: 75 %\nfetching M: 100 %\nfetching M: done\n"
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestTerminalProgressIsOneLine(t *testing.T) {
	var out strings.Builder
	r := &renderer{w: &out, terminal: true}
	r.Start("fetching M", 10e6)
	r.Advance(5e6)
	r.Advance(5e6) // nothing new to show
	r.Finish(false)
	want := "\r\x1b[Kfetching M [==========          ]  50 %  5/10 MB\r\x1b[Kfetching M: gave up\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
