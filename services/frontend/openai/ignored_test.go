package openai

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

// checkHeader makes sure that a header of any request is one that HTTP carries.
func checkHeader(t *testing.T, header string) {
	t.Helper()
	if len(header) > maxIgnoredBytes+len(", ...") {
		t.Errorf("the header has %d bytes, want at most about %d", len(header), maxIgnoredBytes)
	}
	for _, c := range []byte(header) {
		if c < ' ' || c > '~' {
			t.Errorf("the header %q holds the byte %#x", header, c)
		}
	}
}

func TestUnknownParametersAreIgnoredByName(t *testing.T) {
	for _, c := range []struct{ members, want string }{
		{``, ""},
		{`,"b":1,"a":{"x":[1,{"y":null}]},"c":"s"`, "b, a, c"},
		{`,"x-y.z":1`, "x-y.z"},
		{`,"":1,"a,b":1,"c\r\nSet-Cookie: d":1,"é":1,"\"":1`, "?, a?b, c??Set-Cookie:?d, ?, ?"},
		{`,"` + strings.Repeat("n", 100) + `":1`, strings.Repeat("n", 64)},
	} {
		var i Ignored
		got, err := ParseChat([]byte(`{"model":"m",`+okMessages+c.members+`}`), &i)
		if err != nil {
			t.Fatalf("%s: %v", c.members, err)
		}
		plain, err := ParseChat([]byte(`{"model":"m",`+okMessages+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s changed the request (-want +got):\n%s", c.members, diff)
		}
		if i.Header() != c.want {
			t.Errorf("%s: header %q, want %q", c.members, i.Header(), c.want)
		}
	}
}

func TestManyIgnoredNamesAreCutShort(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"model":"m","prompt":"x"`)
	for i := range 1000 {
		body.WriteString(`,"name` + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + strings.Repeat("y", i/26) + `":0`)
	}
	var i Ignored
	if _, err := ParseCompletion([]byte(body.String()+"}"), &i); err != nil {
		t.Fatal(err)
	}
	checkHeader(t, i.Header())
	if !strings.HasSuffix(i.Header(), ", ...") {
		t.Errorf("header %q, want it to tell that there are more", i.Header())
	}
}

// What is skipped is still JSON, without duplicates; what is known is still refused by name.
func TestIgnoringForgivesNothingElse(t *testing.T) {
	with := func(members string) string { return `{"model":"m",` + okMessages + `,` + members + `}` }
	for _, c := range []struct{ body, param, code, message string }{
		{with(`"x":1,"x":2`), "x", "", "duplicate"},
		{with(`"x":{"y":1,"y":2}`), "x.y", "", "duplicate"},
		{with(`"x":NaN`), "", "", "parse the JSON body"},
		{with(`"x":` + strings.Repeat("[", 1<<20)), "", "", "parse the JSON body"},
		{with(`"x":1,"tools":[1]`), "tools", "unsupported_value", ""},
		{with(`"x":1,"temperature":"hot"`), "temperature", "invalid_type", ""},
		{with(`"stream":true,"stream_options":{"x":1}`), "stream_options.x", "unknown_parameter", ""},
		{`{"model":"m","messages":[{"role":"user","content":"hi","extra":1}]}`, "messages[0].extra", "unknown_parameter", ""},
	} {
		_, err := ParseChat([]byte(c.body), &Ignored{})
		expect(t, c.body[:min(len(c.body), 100)], err, c.param, c.code, c.message)
	}
}
