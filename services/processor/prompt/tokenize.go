package prompt

import (
	"context"
	"fmt"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// Encode gives the tokens of a request's text or chat; none for an empty text. begin puts the
// token before them that the model wants before a text; nil: before a text, but not before a
// chat. It looks at nothing else of the request, and bounds nothing. Errors are as Build's.
func (b *Builder) Encode(ctx context.Context, req *generationv1.Request, begin *bool) (tokens []sequence.Token, err error) {
	err = b.slot(ctx, func() (err error) {
		special := begin != nil && *begin
		switch in := req.GetInput().(type) {
		case *generationv1.Request_Chat:
			tokens, err = b.chat(ctx, in.Chat)
		case *generationv1.Request_Text:
			special = special || begin == nil
			tokens = b.cfg.Tokenizer.Encode(nil, in.Text, tokenizer.WithSpecial)
		default:
			err = rpc.InvalidArgument("prompt", "neither messages nor a text is set, want one of them")
		}
		if special {
			tokens = b.begin(tokens)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return tokens, nil
}

// Texts gives the text of each token by itself, of at most mostBytes in all: U+FFFD for
// bytes that are no UTF-8. An id outside the vocabulary has none.
func (b *Builder) Texts(tokens []sequence.Token, mostBytes int) ([]string, error) {
	texts, bytes := make([]string, len(tokens)), 0
	for i, id := range tokens {
		text, _ := b.cfg.Tokenizer.Token(id)
		texts[i] = strings.ToValidUTF8(text, "\ufffd")
		if bytes += len(texts[i]); bytes > mostBytes {
			return nil, rpc.InvalidArgument("return_token_strs", fmt.Sprintf("asks for more than %d bytes, want a shorter prompt", mostBytes))
		}
	}
	return texts, nil
}

// Decode gives the text of tokens, of at most mostBytes: with the texts of control tokens,
// and U+FFFD for bytes that are no UTF-8.
func (b *Builder) Decode(ctx context.Context, tokens []sequence.Token, mostBytes int) (text string, err error) {
	if err := b.check("tokens", tokens); err != nil {
		return "", err
	}
	err = b.slot(ctx, func() error {
		var out strings.Builder
		d := b.cfg.Tokenizer.NewDetokenizer(tokenizer.WithSpecial)
		for _, id := range tokens {
			out.WriteString(d.Push(id))
			if out.Len() > mostBytes {
				return rpc.InvalidArgument("tokens", fmt.Sprintf("stand for more than %d bytes of text, want fewer", mostBytes))
			}
		}
		out.WriteString(d.Flush())
		text = out.String()
		return nil
	})
	return text, err
}
