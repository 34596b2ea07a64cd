package chattemplate

import (
	"errors"
	"strings"
	"unicode"

	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// errNotWritten says that a template does not write the last message as it is.
var errNotWritten = errors.New("the chat template does not write the last message as it is, so that it cannot be continued")

// Resume cuts a rendered chat right after the text of its last message, for an answer that
// goes on with it: as apply_chat_template(continue_final_message=True) does. Blanks around
// the text stay only if the template left them. The segments are changed.
func Resume(segments []tokenizer.Segment, last string) ([]tokenizer.Segment, error) {
	core := strings.TrimSpace(last)
	if core == "" {
		return nil, errors.New("the last message has no text to continue")
	}
	text := Join(segments)
	start := strings.LastIndex(text, core)
	if start < 0 {
		return nil, errNotWritten
	}
	end := start + len(core)
	if whole := strings.TrimLeftFunc(last, unicode.IsSpace); strings.HasPrefix(text[start:], whole) {
		end = start + len(whole)
	}
	for i := range segments {
		if end <= len(segments[i].Text) {
			segments[i].Text = segments[i].Text[:end]
			return segments[:i+1], nil
		}
		end -= len(segments[i].Text)
	}
	return segments, nil
}
