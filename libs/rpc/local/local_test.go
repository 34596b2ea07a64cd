package local_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/switchyard-llm/switchyard/libs/rpc/local"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// processor is a server whose RPCs are functions.
type processor struct {
	processorv1.UnimplementedProcessorServer
	generate func(*processorv1.GenerateRequest, grpc.ServerStreamingServer[processorv1.GenerateResponse]) error
	models   func(context.Context) (*processorv1.ModelsResponse, error)
}

func (p *processor) Generate(r *processorv1.GenerateRequest, s grpc.ServerStreamingServer[processorv1.GenerateResponse]) error {
	return p.generate(r, s)
}

func (p *processor) Models(ctx context.Context, _ *processorv1.ModelsRequest) (*processorv1.ModelsResponse, error) {
	return p.models(ctx)
}

// onBoth runs a test over the in-process connection and over real gRPC, so that the first
// is held to what the second does.
func onBoth(t *testing.T, p *processor, test func(t *testing.T, client processorv1.ProcessorClient)) {
	t.Run("local", func(t *testing.T) {
		conn := local.New(local.Options{})
		processorv1.RegisterProcessorServer(conn, p)
		t.Cleanup(conn.Close)
		test(t, processorv1.NewProcessorClient(conn))
	})
	t.Run("grpc", func(t *testing.T) {
		lis := bufconn.Listen(1 << 16)
		server := grpc.NewServer()
		processorv1.RegisterProcessorServer(server, p)
		served := make(chan error, 1)
		go func() { served <- server.Serve(lis) }()
		conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = conn.Close()
			server.Stop()
			<-served
		})
		test(t, processorv1.NewProcessorClient(conn))
	})
}

func chunk(text string) *processorv1.GenerateResponse {
	return &processorv1.GenerateResponse{Chunks: []*generationv1.Chunk{{Text: text}}}
}

func request(id string) *processorv1.GenerateRequest {
	return &processorv1.GenerateRequest{Request: &generationv1.Request{RequestId: id}}
}

func TestStreamDeliversMessagesInOrderThenEOF(t *testing.T) {
	p := &processor{generate: func(r *processorv1.GenerateRequest, s grpc.ServerStreamingServer[processorv1.GenerateResponse]) error {
		for _, text := range []string{r.Request.RequestId, "b", "c"} {
			if err := s.Send(chunk(text)); err != nil {
				return err
			}
		}
		return nil
	}}
	onBoth(t, p, func(t *testing.T, client processorv1.ProcessorClient) {
		stream, err := client.Generate(t.Context(), request("a"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"a", "b", "c"} {
			got, err := stream.Recv()
			if err != nil || got.Chunks[0].Text != want {
				t.Fatalf("Recv = %v, %v; want %q", got, err, want)
			}
		}
		for range 2 {
			if _, err := stream.Recv(); err != io.EOF {
				t.Fatalf("Recv after the end = %v, want EOF", err)
			}
		}
	})
}

func TestMetadataChangesDirection(t *testing.T) {
	p := &processor{generate: func(_ *processorv1.GenerateRequest, s grpc.ServerStreamingServer[processorv1.GenerateResponse]) error {
		in, _ := metadata.FromIncomingContext(s.Context())
		out, _ := metadata.FromOutgoingContext(s.Context())
		if got := in.Get("k"); len(got) != 1 || got[0] != "v" {
			return status.Errorf(codes.Internal, "incoming k = %v", got)
		}
		if len(in.Get("outer")) > 0 || len(out) > 0 {
			return status.Errorf(codes.Internal, "leaked: incoming %v, outgoing %v", in, out)
		}
		if err := s.SetHeader(metadata.Pairs("h", "1")); err != nil {
			return err
		}
		s.SetTrailer(metadata.Pairs("t", "2"))
		return s.Send(chunk(""))
	}}
	onBoth(t, p, func(t *testing.T, client processorv1.ProcessorClient) {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("outer", "x"))
		var trailer metadata.MD
		stream, err := client.Generate(metadata.AppendToOutgoingContext(ctx, "k", "v"), request(""), grpc.Trailer(&trailer))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		header, err := stream.Header()
		if err != nil || len(header.Get("h")) != 1 {
			t.Errorf("Header = %v, %v; want h", header, err)
		}
		if _, err := stream.Recv(); err != io.EOF {
			t.Fatal(err)
		}
		if len(stream.Trailer().Get("t")) != 1 || len(trailer.Get("t")) != 1 {
			t.Errorf("trailers = %v and %v, want t in both", stream.Trailer(), trailer)
		}
	})
}

func TestErrorsBecomeStatuses(t *testing.T) {
	var fail error
	p := &processor{
		generate: func(*processorv1.GenerateRequest, grpc.ServerStreamingServer[processorv1.GenerateResponse]) error {
			return fail
		},
		models: func(context.Context) (*processorv1.ModelsResponse, error) { return nil, fail },
	}
	onBoth(t, p, func(t *testing.T, client processorv1.ProcessorClient) {
		for _, c := range []struct {
			err  error
			want codes.Code
		}{
			{status.Error(codes.ResourceExhausted, "full"), codes.ResourceExhausted},
			{context.DeadlineExceeded, codes.DeadlineExceeded},
			{errors.New("plain"), codes.Unknown},
		} {
			fail = c.err
			stream, err := client.Generate(t.Context(), request(""))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); status.Code(err) != c.want {
				t.Errorf("stream: %v came as %v", c.err, err)
			}
			if _, err := client.Models(t.Context(), &processorv1.ModelsRequest{}); status.Code(err) != c.want {
				t.Errorf("unary: %v came as %v", c.err, err)
			}
		}
	})
}

func TestCancelAndDeadlineReachTheHandler(t *testing.T) {
	ended := make(chan error, 1)
	p := &processor{generate: func(_ *processorv1.GenerateRequest, s grpc.ServerStreamingServer[processorv1.GenerateResponse]) error {
		if err := s.Send(chunk("")); err != nil {
			return err
		}
		<-s.Context().Done()
		ended <- s.Context().Err()
		return s.Context().Err()
	}}
	onBoth(t, p, func(t *testing.T, client processorv1.ProcessorClient) {
		for name, c := range map[string]struct {
			ctx  func() (context.Context, context.CancelFunc)
			want codes.Code
		}{
			"cancel": {func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }, codes.Canceled},
			"deadline": {func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), 50*time.Millisecond)
			}, codes.DeadlineExceeded},
		} {
			ctx, cancel := c.ctx()
			stream, err := client.Generate(ctx, request(""))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			if name == "cancel" {
				go cancel()
			}
			if _, err := stream.Recv(); status.Code(err) != c.want {
				t.Errorf("%s: Recv = %v", name, err)
			}
			<-ended
			cancel()
		}
	})
}

// A caller that stops reading leaves the handler paused in Send; its cancel must free it.
func TestCancelUnblocksSend(t *testing.T) {
	result := make(chan error, 1)
	p := &processor{generate: func(_ *processorv1.GenerateRequest, s grpc.ServerStreamingServer[processorv1.GenerateResponse]) (err error) {
		defer func() { result <- err }()
		for {
			if err := s.Send(chunk("x")); err != nil {
				return err
			}
		}
	}}
	onBoth(t, p, func(t *testing.T, client processorv1.ProcessorClient) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := client.Generate(ctx, request(""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-result; err == nil {
			t.Error("Send went on after the cancel")
		}
		for err == nil { // gRPC may have buffered messages
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.Canceled {
			t.Errorf("Recv after the cancel = %v", err)
		}
	})
}

func TestStreamThatIsNeverReadEndsWithItsContext(t *testing.T) {
	var ran atomic.Bool
	conn := local.New(local.Options{})
	processorv1.RegisterProcessorServer(conn, &processor{generate: func(*processorv1.GenerateRequest, grpc.ServerStreamingServer[processorv1.GenerateResponse]) error {
		ran.Store(true)
		return nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := processorv1.NewProcessorClient(conn).Generate(ctx, request("")); err != nil {
		t.Fatal(err)
	}
	cancel()
	conn.Close() // hangs if the call is not settled
	if ran.Load() {
		t.Error("the handler ran although nobody read")
	}
}

func TestCloseCancelsCallsAndRefusesNewOnes(t *testing.T) {
	entered := make(chan struct{})
	conn := local.New(local.Options{})
	processorv1.RegisterProcessorServer(conn, &processor{generate: func(_ *processorv1.GenerateRequest, s grpc.ServerStreamingServer[processorv1.GenerateResponse]) error {
		close(entered)
		<-s.Context().Done()
		return s.Context().Err()
	}})
	client := processorv1.NewProcessorClient(conn)
	stream, err := client.Generate(t.Context(), request(""))
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan error, 1)
	go func() {
		_, err := stream.Recv()
		received <- err
	}()
	<-entered
	conn.Close()
	if err := <-received; status.Code(err) != codes.Unavailable {
		t.Errorf("Recv during Close = %v, want Unavailable", err)
	}
	if _, err := client.Generate(t.Context(), request("")); status.Code(err) != codes.Unavailable {
		t.Errorf("Generate after Close = %v, want Unavailable", err)
	}
	if _, err := client.Models(t.Context(), &processorv1.ModelsRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("Models after Close = %v, want Unavailable", err)
	}
}

func TestInterceptorsRunAndCallerValuesPass(t *testing.T) {
	type key struct{}
	var unary, streamed string
	conn := local.New(local.Options{
		Unary: func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			unary = info.FullMethod
			return next(ctx, req)
		},
		Stream: func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			streamed = info.FullMethod
			return next(srv, s)
		},
	})
	processorv1.RegisterProcessorServer(conn, &processor{
		models: func(ctx context.Context) (*processorv1.ModelsResponse, error) {
			name, _ := ctx.Value(key{}).(string)
			return &processorv1.ModelsResponse{Models: []*processorv1.Model{{Name: name}}}, nil
		},
		generate: func(*processorv1.GenerateRequest, grpc.ServerStreamingServer[processorv1.GenerateResponse]) error {
			return nil
		},
	})
	client := processorv1.NewProcessorClient(conn)
	models, err := client.Models(context.WithValue(t.Context(), key{}, "m"), &processorv1.ModelsRequest{})
	if err != nil || models.Models[0].Name != "m" {
		t.Errorf("Models = %v, %v; want the caller's value", models, err)
	}
	stream, err := client.Generate(t.Context(), request(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	if unary != processorv1.Processor_Models_FullMethodName || streamed != processorv1.Processor_Generate_FullMethodName {
		t.Errorf("interceptors saw %q and %q", unary, streamed)
	}
}

func TestUnknownMethodsAreUnimplemented(t *testing.T) {
	client := processorv1.NewProcessorClient(local.New(local.Options{}))
	if _, err := client.Models(t.Context(), &processorv1.ModelsRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("Models = %v", err)
	}
	if _, err := client.Generate(t.Context(), request("")); status.Code(err) != codes.Unimplemented {
		t.Errorf("Generate = %v", err)
	}
}

func BenchmarkStreamMessage(b *testing.B) {
	message := chunk("token")
	conn := local.New(local.Options{})
	processorv1.RegisterProcessorServer(conn, &processor{generate: func(_ *processorv1.GenerateRequest, s grpc.ServerStreamingServer[processorv1.GenerateResponse]) error {
		for s.Send(message) == nil {
		}
		return nil
	}})
	defer conn.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	stream, err := processorv1.NewProcessorClient(conn).Generate(ctx, request(""))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := stream.Recv(); err != nil {
			b.Fatal(err)
		}
	}
}
