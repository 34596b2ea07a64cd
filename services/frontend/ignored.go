package frontend

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// ignoredHeader names the parameters of a request that nobody knows.
const ignoredHeader = "X-Switchyard-Ignored"

// ignored takes the names of unknown parameters; nil where they are refused.
func (s *server) ignored() *openai.Ignored {
	if s.cfg.Strict {
		return nil
	}
	return &openai.Ignored{}
}

// tell names to the client what was ignored, before its answer begins.
func tell(ctx context.Context, ignored *openai.Ignored) {
	names := ignored.Header()
	if names == "" {
		return
	}
	if x := exchangeOf(ctx); x != nil {
		x.Header().Set(ignoredHeader, names)
		return
	}
	// Without a stream of gRPC's, as in some tests, there is nobody to tell.
	_ = grpc.SetHeader(ctx, metadata.Pairs(ignoredHeader, names))
}
