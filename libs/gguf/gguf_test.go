package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sample(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	err := Write(&b, []Pair{
		{"general.architecture", "llama"},
		{"u8", uint8(200)}, {"i8", int8(-3)}, {"u16", uint16(60000)}, {"i16", int16(-300)}, {"u32", uint32(4e9)}, {"i32", int32(-5)},
		{"u64", uint64(math.MaxUint64)}, {"i64", int64(-1 << 62)}, {"f32", float32(1.5)}, {"f64", 2.25}, {"yes", true}, {"no", false},
		{"strings", []string{"a", "", "ħello"}}, {"u32s", []uint32{1, 2, 3}}, {"i32s", []int32{-1, 2}}, {"f32s", []float32{0.5, -1}},
		{"u64s", []uint64{math.MaxUint64}}, {"empty", []string{}},
	}, []Tensor{
		{Name: "a", Type: TypeF32, Dims: []uint64{3, 1}, Data: bytes.Repeat([]byte{1, 2, 3}, 4)},
		{Name: "q", Type: TypeQ4_1, Dims: []uint64{64, 2}, Data: bytes.Repeat([]byte{7}, 80)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func parse(t testing.TB, data []byte) *File {
	t.Helper()
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// check compares a getter's answer with what is wanted.
func check[T comparable](t *testing.T, key string, get func(string) (T, error), want T) {
	t.Helper()
	if got, err := get(key); err != nil || got != want {
		t.Errorf("%s = %v, %v; want %v", key, got, err, want)
	}
}

func TestScalarsReadBackAsWritten(t *testing.T) {
	f := parse(t, sample(t))
	check(t, "u8", f.Uint, 200)
	check(t, "u16", f.Uint, 60000)
	check(t, "u32", f.Uint, 4e9)
	check(t, "u64", f.Uint, math.MaxUint64)
	check(t, "f32", f.Float, 1.5)
	check(t, "f64", f.Float, 2.25)
	check(t, "yes", f.Bool, true)
	check(t, "no", f.Bool, false)
	check(t, "general.architecture", f.String, "llama")
}

func TestArraysReadBackAsWritten(t *testing.T) {
	f := parse(t, sample(t))
	if got, err := f.Strings("strings"); err != nil || strings.Join(got, "|") != "a||ħello" {
		t.Errorf("strings = %q, %v", got, err)
	}
	if got, err := f.Strings("empty"); err != nil || len(got) != 0 {
		t.Errorf("empty = %q, %v", got, err)
	}
	if got, err := f.Uints("u32s"); err != nil || len(got) != 3 || got[2] != 3 {
		t.Errorf("u32s = %v, %v", got, err)
	}
	if got, err := f.Ints("i32s"); err != nil || len(got) != 2 || got[0] != -1 {
		t.Errorf("i32s = %v, %v", got, err)
	}
	if got, err := f.Floats("f32s"); err != nil || len(got) != 2 || got[1] != -1 {
		t.Errorf("f32s = %v, %v", got, err)
	}
}

func TestGetterErrorsNameKeyAndTypes(t *testing.T) {
	f := parse(t, sample(t))
	for _, c := range []struct {
		get  func() error
		want []string
	}{
		{func() error { _, err := f.Uint("absent"); return err }, []string{`"absent"`, "missing", "unsigned integer"}},
		{func() error { _, err := f.Uint("f32"); return err }, []string{`"f32"`, "float32", "unsigned integer"}},
		{func() error { _, err := f.Uint("i16"); return err }, []string{`"i16"`, "-300"}},
		{func() error { _, err := f.Float("u8"); return err }, []string{`"u8"`, "uint8", "float"}},
		{func() error { _, err := f.Bool("u8"); return err }, []string{`"u8"`, "uint8", "bool"}},
		{func() error { _, err := f.String("strings"); return err }, []string{`"strings"`, "array of string", "a string"}},
		{func() error { _, err := f.Strings("u32s"); return err }, []string{`"u32s"`, "array of uint32", "strings"}},
		{func() error { _, err := f.Uints("i32s"); return err }, []string{`"i32s"`, "element 0", "-1"}},
		{func() error { _, err := f.Ints("u64s"); return err }, []string{`"u64s"`, "element 0", "18446744073709551615"}},
		{func() error { _, err := f.Floats("u32s"); return err }, []string{`"u32s"`, "array of uint32", "floats"}},
	} {
		mentions(t, c.get(), c.want...)
	}
}

// mentions fails unless err is an error whose text holds all parts.
func mentions(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that mentions %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %q", err, part)
		}
	}
}

func TestTensorsAliasTheFile(t *testing.T) {
	data := sample(t)
	f := parse(t, data)
	q, err := f.Tensor("q")
	if err != nil {
		t.Fatal(err)
	}
	if q.Type != TypeQ4_1 || q.Elements() != 128 || len(q.Data) != 80 || q.Data[79] != 7 {
		t.Errorf("q = %+v", q)
	}
	if at := bytes.Index(data, q.Data); at%32 != 0 || &data[at] != &q.Data[0] {
		t.Errorf("q lies at byte %d, want a multiple of 32 within the file", at)
	}
	if _, err := f.Tensor("missing"); err == nil {
		t.Error("no error for a missing tensor")
	}
}

func TestOpenReadsAFileAndNamesAMissingOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	mentions(t, func() error { _, err := Open(path); return err }(), path)
	if err := os.WriteFile(path, sample(t), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.Tensors()); n != 2 {
		t.Errorf("%d tensors, want 2", n)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	mentions(t, func() error { _, err := Open(filepath.Dir(path)); return err }(), "regular file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mentions(t, func() error { _, err := Open(path); return err }(), path, "byte 0", "magic")
}

func TestEveryTruncationIsAnErrorWithAnOffset(t *testing.T) {
	data := sample(t)
	f := parse(t, data)
	last := f.Tensors()[1]
	end := bytes.Index(data, last.Data) + len(last.Data) // padding after it is not needed
	for n := range end {
		_, err := Parse(data[:n])
		mentions(t, err, "byte ")
	}
	parse(t, data[:end])
}

// patch returns the sample with 8 bytes overwritten after the first occurrence of a text.
func patch(t *testing.T, after string, skip int, value uint64, size int) []byte {
	t.Helper()
	data := sample(t)
	at := bytes.Index(data, []byte(after))
	if at < 0 {
		t.Fatalf("%q is not in the sample", after)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], value)
	copy(data[at+len(after)+skip:], b[:size])
	return data
}

func TestHostileFieldsAreNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want []string
	}{
		{"magic", []byte("GGML\x03\x00\x00\x00"), []string{"byte 0", "magic"}},
		{"big-endian", []byte("GGUF\x00\x00\x00\x03"), []string{"byte 4", "big-endian"}},
		{"version", patch(t, "GGUF", 0, 9, 4), []string{"byte 4", "version", "9"}},
		{"tensor count", patch(t, "GGUF", 4, 1<<60, 8), []string{"byte 8", "tensor count"}},
		{"metadata count", patch(t, "GGUF", 12, 1<<60, 8), []string{"byte 16", "metadata count"}},
		{"string length", patch(t, "general.architecture", 4, math.MaxUint64, 8), []string{`"general.architecture"`, "needs 18446744073709551615 bytes"}},
		{"value type", patch(t, "general.architecture", 0, 13, 4), []string{`"general.architecture" type`, "13"}},
		{"bool", patch(t, "yes", 4, 2, 1), []string{`"yes"`, "0 or 1"}},
		{"array length", patch(t, "u32s", 8, 1<<62, 8), []string{`"u32s" length`}},
		{"array type", patch(t, "u32s", 4, 99, 4), []string{`"u32s" element type`, "99"}},
		{"dimension count", patch(t, "\x01\x00\x00\x00\x00\x00\x00\x00q", 0, 5, 4), []string{`tensor "q" dimensions`, "5"}},
		{"zero dimension", patch(t, "\x01\x00\x00\x00\x00\x00\x00\x00q", 4, 0, 8), []string{`tensor "q" dimension 0`}},
		{"overflow", patch(t, "\x01\x00\x00\x00\x00\x00\x00\x00q", 12, 1<<63, 8), []string{`tensor "q" dimension 1`}},
		{"partial block", patch(t, "\x01\x00\x00\x00\x00\x00\x00\x00q", 4, 65, 8), []string{`tensor "q"`, "multiple of 32", "Q4_1"}},
		{"tensor type", patch(t, "\x01\x00\x00\x00\x00\x00\x00\x00q", 20, 77, 4), []string{`tensor "q" type`, "77"}},
		{"misaligned", patch(t, "\x01\x00\x00\x00\x00\x00\x00\x00q", 24, 33, 8), []string{`tensor "q" offset`, "alignment 32"}},
		{"beyond the end", patch(t, "\x01\x00\x00\x00\x00\x00\x00\x00q", 24, 1<<63, 8), []string{`tensor "q" offset`, "truncated"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(c.data)
			mentions(t, err, append(c.want, "byte ")...)
		})
	}
}

func TestHostileCountsAllocateInProportionToTheFile(t *testing.T) {
	data := patch(t, "strings", 8, 1<<20, 8) // more strings than the bytes could hold
	allocs := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Parse(data); err == nil {
				b.Fatal("no error")
			}
		}
	})
	if limit := int64(64 << 10); allocs.AllocedBytesPerOp() > limit {
		t.Errorf("parsing %d bytes allocated %d, want at most %d", len(data), allocs.AllocedBytesPerOp(), limit)
	}
}

func TestDeepArraysAreRefused(t *testing.T) {
	b := []byte("GGUF\x03\x00\x00\x00")
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = binary.LittleEndian.AppendUint64(b, 1)
	b = binary.LittleEndian.AppendUint64(b, 1)
	b = append(b, 'k')
	b = binary.LittleEndian.AppendUint32(b, uint32(kindArray))
	for range 1000 {
		b = binary.LittleEndian.AppendUint32(b, uint32(kindArray))
		b = binary.LittleEndian.AppendUint64(b, 1)
	}
	_, err := Parse(b)
	mentions(t, err, `"k"`, "nests")
}

func TestWriteRefusesWhatOpenWouldRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		pairs   []Pair
		tensors []Tensor
		want    string
	}{
		"value type": {[]Pair{{"k", struct{}{}}}, nil, "struct {}"},
		"key twice":  {[]Pair{{"k", true}, {"k", true}}, nil, "twice"},
		"alignment":  {[]Pair{{"general.alignment", uint32(12)}}, nil, "power of two"},
		"data size":  {nil, []Tensor{{Name: "x", Type: TypeF32, Dims: []uint64{2}, Data: make([]byte, 7)}}, "want 8"},
		"no dims":    {nil, []Tensor{{Name: "x", Type: TypeF32, Data: make([]byte, 4)}}, "0 dimensions"},
	} {
		t.Run(name, func(t *testing.T) {
			mentions(t, Write(&bytes.Buffer{}, c.pairs, c.tensors), c.want)
		})
	}
}

func TestTypeSizes(t *testing.T) {
	for typ, want := range map[Type]uint64{TypeF32: 1024, TypeF16: 512, TypeBF16: 512, TypeQ4_0: 144, TypeQ4_1: 160, TypeQ8_0: 272, TypeQ6K: 210, TypeMXFP4: 136} {
		if got := typ.Bytes(256); got != want {
			t.Errorf("256 elements of %s are %d bytes, want %d", typ, got, want)
		}
	}
	if s := Type(1 << 31).String(); s != "type 2147483648" {
		t.Errorf("unknown type prints as %q", s)
	}
}

func FuzzParse(f *testing.F) {
	data := sample(f)
	f.Add(data)
	f.Add(data[:40])
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		for _, key := range file.Keys() {
			file.Uint(key)
			file.Float(key)
			file.Bool(key)
			file.String(key)
			file.Strings(key)
			file.Uints(key)
			file.Ints(key)
			file.Floats(key)
		}
		for _, tensor := range file.Tensors() {
			if uint64(len(tensor.Data)) != tensor.Type.Bytes(tensor.Elements()) {
				t.Errorf("tensor %q has %d bytes", tensor.Name, len(tensor.Data))
			}
		}
	})
}

// BenchmarkParse parses a head with a vocabulary of 50,000 entries.
func BenchmarkParse(b *testing.B) {
	vocab := strings.Fields(strings.Repeat("token ", 50000))
	var out bytes.Buffer
	if err := Write(&out, []Pair{{"tokenizer.ggml.tokens", vocab}}, nil); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(out.Len()))
	for b.Loop() {
		if _, err := Parse(out.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
