package frontend

import (
	"google.golang.org/grpc"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// sink is where the messages of an answer go; the two RPCs have messages of their own.
type sink interface {
	completion(*generationv1.Completion) error
	chunks([]*generationv1.Chunk) error
	done(*frontendv1.Done) error
	keepalive() error
}

// atEdge is a sink for an HTTP client. Its messages go through the gateway, whose goroutine
// waits with that of the answer; keepalives go past it.
type atEdge struct {
	sink
	x *exchange
}

// keepalive does not fail: once the client is lost, the request's context ends.
func (s atEdge) keepalive() error {
	s.x.keepalive()
	return nil
}

// kind is what the two RPCs differ in.
type kind struct {
	name     string // in logs, spans and metrics
	idPrefix string
}

var (
	chatKind = kind{"chat.completions", "chatcmpl-"}
	textKind = kind{"completions", "cmpl-"}
)

type chatSink struct {
	stream grpc.ServerStreamingServer[frontendv1.ChatCompletionsResponse]
}

var _ sink = chatSink{}

func (s chatSink) completion(c *generationv1.Completion) error {
	return s.stream.Send(&frontendv1.ChatCompletionsResponse{Response: &frontendv1.ChatCompletionsResponse_Completion{Completion: c}})
}

func (s chatSink) chunks(c []*generationv1.Chunk) error {
	return s.stream.Send(&frontendv1.ChatCompletionsResponse{Response: &frontendv1.ChatCompletionsResponse_Chunks{Chunks: &frontendv1.Chunks{Chunks: c}}})
}

func (s chatSink) done(d *frontendv1.Done) error {
	return s.stream.Send(&frontendv1.ChatCompletionsResponse{Response: &frontendv1.ChatCompletionsResponse_Done{Done: d}})
}

func (s chatSink) keepalive() error {
	return s.stream.Send(&frontendv1.ChatCompletionsResponse{Response: &frontendv1.ChatCompletionsResponse_Keepalive{Keepalive: &frontendv1.Keepalive{}}})
}

type textSink struct {
	stream grpc.ServerStreamingServer[frontendv1.CompletionsResponse]
}

var _ sink = textSink{}

func (s textSink) completion(c *generationv1.Completion) error {
	return s.stream.Send(&frontendv1.CompletionsResponse{Response: &frontendv1.CompletionsResponse_Completion{Completion: c}})
}

func (s textSink) chunks(c []*generationv1.Chunk) error {
	return s.stream.Send(&frontendv1.CompletionsResponse{Response: &frontendv1.CompletionsResponse_Chunks{Chunks: &frontendv1.Chunks{Chunks: c}}})
}

func (s textSink) done(d *frontendv1.Done) error {
	return s.stream.Send(&frontendv1.CompletionsResponse{Response: &frontendv1.CompletionsResponse_Done{Done: d}})
}

func (s textSink) keepalive() error {
	return s.stream.Send(&frontendv1.CompletionsResponse{Response: &frontendv1.CompletionsResponse_Keepalive{Keepalive: &frontendv1.Keepalive{}}})
}
