package openai

import "unicode/utf8"

// The bounds of what labels a request, which are OpenAI's: pairs, and characters.
const (
	maxPairs      = 16
	maxKeyChars   = 64
	maxValueChars = 512
)

// label gives what reads a parameter that labels a request for a provider's own records;
// nil for another. It has no effect here, and is checked so that a client that works here
// works there.
func (p *parser) label(name string) func() error {
	switch name {
	case "user", "safety_identifier":
		return func() error {
			_, err := p.text()
			return err
		}
	case "metadata":
		return p.readMetadata
	}
	return nil
}

func (p *parser) readMetadata() error {
	pairs := 0
	return p.object(func(key string) error {
		if pairs++; pairs > maxPairs {
			return bad("object_above_max_properties", "metadata",
				"Invalid 'metadata': too many properties. Expected an object with at most %d properties, but got more instead.", maxPairs)
		}
		if n := utf8.RuneCountInString(key); n > maxKeyChars {
			return bad("property_name_above_max_length", "metadata",
				"Invalid property name in 'metadata': name too long. Expected a property name with maximum length %d, but got one with length %d instead.", maxKeyChars, n)
		}
		value, err := p.text()
		if err != nil {
			return err
		}
		if n := utf8.RuneCountInString(value); n > maxValueChars {
			return longText(p.param(), maxValueChars, "", n)
		}
		return nil
	})
}
