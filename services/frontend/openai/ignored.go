package openai

import "strings"

// The bounds of Ignored.Header: of a name, and of the whole.
const (
	maxIgnoredNameBytes = 64
	maxIgnoredBytes     = 512
)

// Ignored takes the names of the members that a request has and the API does not, so that
// its client can be told. The zero value is ready. A nil one takes none: then such a
// member is refused.
type Ignored struct {
	header strings.Builder
	more   bool // the header is full
}

// Header is a value for an HTTP header: the names in the order of the request, separated
// by a comma and a blank; what is no printable ASCII or would look like a separator is a
// question mark, and names that found no room are "...". Empty: nothing was ignored.
func (i *Ignored) Header() string {
	if i == nil {
		return ""
	}
	return i.header.String()
}

func (i *Ignored) add(name string) {
	switch {
	case i.more:
		return
	case i.header.Len()+len(", ")+min(len(name), maxIgnoredNameBytes) > maxIgnoredBytes:
		i.more = true
		name = "..."
	}
	if i.header.Len() > 0 {
		i.header.WriteString(", ")
	}
	i.header.WriteString(sanitised(name))
}

// sanitised is a name as a header may show it.
func sanitised(name string) string {
	if name == "" {
		return "?"
	}
	name = name[:min(len(name), maxIgnoredNameBytes)]
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ',' || r == '"' {
			return '?'
		}
		return r
	}, name)
}
