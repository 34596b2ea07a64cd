package frontend

import (
	"context"
	"fmt"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// newGateway makes the generated gateway speak OpenAI. It is only called by the edge, which
// has put an exchange into the context, read the body and left no header for it to see.
func newGateway(client frontendv1.FrontendClient) (*runtime.ServeMux, error) {
	none := func(string) (string, bool) { return "", false }
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, openai.Marshaler{}),
		runtime.WithForwardResponseRewriter(encode),
		runtime.WithErrorHandler(onError),
		runtime.WithStreamErrorHandler(onStreamError),
		runtime.WithRoutingErrorHandler(onRoutingError),
		// Nothing crosses between HTTP headers and metadata, neither way.
		runtime.WithIncomingHeaderMatcher(none),
		runtime.WithOutgoingHeaderMatcher(none),
		runtime.WithOutgoingTrailerMatcher(none),
		// A form-typed POST must not become a GET, nor a header change the method.
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		// The exchange knows the length of an answer that is no stream.
		runtime.WithDisableChunkedEncoding(),
		// /v1/models itself is no model.
		runtime.WithStrictDeepWildcardMatching(),
	)
	// The context only matters to clients that are dialled.
	return mux, frontendv1.RegisterFrontendHandlerClient(context.Background(), mux, client)
}

// encode turns a message into the bytes of its OpenAI form, in the exchange's own buffer:
// the gateway writes them at once, so the next message may overwrite them.
func encode(ctx context.Context, message proto.Message) (any, error) {
	x := exchangeOf(ctx)
	data := x.body.Data[:0]
	x.body.ContentType = openai.ContentTypeJSON
	switch m := message.(type) {
	case *frontendv1.ChatCompletionsResponse:
		x.streaming = m.GetCompletion() == nil
		data = x.encoder.AppendChat(data, m)
	case *frontendv1.CompletionsResponse:
		x.streaming = m.GetCompletion() == nil
		data = x.encoder.AppendCompletion(data, m)
	case *frontendv1.TokenizeResponse:
		data = openai.AppendTokenized(data, m)
	case *frontendv1.DetokenizeResponse:
		data = openai.AppendDetokenized(data, m)
	case *frontendv1.ListModelsResponse:
		data = openai.AppendModels(data, m.GetModels())
	case *frontendv1.RetrieveModelResponse:
		data = openai.AppendModel(data, m.GetModel())
	}
	if x.streaming {
		x.body.ContentType = openai.ContentTypeStream
	}
	x.body.Data = data
	return &x.body, nil
}

// onError answers a call that failed before its first message.
func onError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, _ http.ResponseWriter, _ *http.Request, err error) {
	exchangeOf(ctx).fail(openai.ErrorOf(err))
}

// onStreamError answers a stream that failed, before its first message or after. What the
// gateway makes of the result is dropped: the exchange has ended.
func onStreamError(ctx context.Context, err error) *status.Status {
	exchangeOf(ctx).fail(openai.ErrorOf(err))
	return status.Convert(err)
}

// onRoutingError answers a request that no route takes.
func onRoutingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, _ http.ResponseWriter, r *http.Request, httpStatus int) {
	x := exchangeOf(r.Context())
	if httpStatus != http.StatusMethodNotAllowed {
		if openai.NotServed(r.URL.Path) {
			x.fail(openai.NotImplemented(fmt.Sprintf("%s is not served here.", r.URL.Path)))
			return
		}
		x.fail(openai.Refuse(http.StatusNotFound, "unknown_url", "", "Unknown request URL: %s %s. Please check the URL for typos.", r.Method, r.URL.Path))
		return
	}
	allow := routeOf(r.URL.Path).method
	x.Header().Set("Allow", allowed(allow))
	x.fail(wrongMethod(r, allow))
}

// allowed is the value of an Allow header: whoever answers GET answers HEAD.
func allowed(method string) string {
	if method == http.MethodGet {
		return "GET, HEAD"
	}
	return method
}

func wrongMethod(r *http.Request, allow string) *openai.Error {
	return openai.Refuse(http.StatusMethodNotAllowed, "method_not_supported", "", "Not allowed to %s on %s. Use %s.", r.Method, r.URL.Path, allow)
}
