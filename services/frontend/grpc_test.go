package frontend_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/frontend"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return lis
}

func instance(id string) *instancev1.Instance {
	return &instancev1.Instance{Id: id, Incarnation: "1", Role: instancev1.Role_ROLE_FRONTEND, Started: timestamppb.Now()}
}

// start runs a frontend and its processor with real gRPC between all parts.
func start(t *testing.T, p *processor, change ...func(*frontend.Config)) frontendv1.FrontendClient {
	t.Helper()
	back := listen(t)
	server := rpc.NewServer(rpc.ServerOptions{})
	processorv1.RegisterProcessorServer(server, p)
	conn, err := rpc.Dial(back.Addr().String(), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, back, 0) }()
	t.Cleanup(func() {
		cancel()
		<-served
		_ = conn.Close()
	})
	return startBefore(t, processorv1.NewProcessorClient(conn), change...)
}

// startBefore runs a frontend before a processor.
func startBefore(t *testing.T, processor processorv1.ProcessorClient, change ...func(*frontend.Config)) frontendv1.FrontendClient {
	t.Helper()
	cfg := config()
	for _, c := range change {
		c(&cfg)
	}
	front, web := listen(t), listen(t)
	conn, err := rpc.Dial(front.Addr().String(), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := frontend.New(cfg, frontend.Deps{Processor: processor, HTTP: web, GRPC: front, Server: rpc.NewServer(rpc.ServerOptions{})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		_ = conn.Close()
	})
	if err := f.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return frontendv1.NewFrontendClient(conn)
}

// A caller that does not read loses its answer as an HTTP client does; so does one to whom only
// keepalives go.
func TestACallerThatDoesNotReadIsGivenUp(t *testing.T) {
	for _, silent := range []bool{false, true} {
		ended := make(chan struct{})
		client := start(t, &processor{handler: func(_ *generationv1.Request, out sender) error {
			defer close(ended)
			for range 40 { // more than all windows hold
				if err := say(out, strings.Repeat("x", 100_000)); err != nil {
					return err
				}
			}
			<-out.Context().Done()
			return out.Context().Err()
		}}, func(c *frontend.Config) {
			c.WriteTimeout, c.StreamIdle = 200*time.Millisecond, 0
			if silent {
				c.Keepalive = time.Microsecond
			}
		})
		stream, err := client.ChatCompletions(t.Context(), &frontendv1.ChatCompletionsRequest{
			Request: &frontendv1.ChatCompletionsRequest_Json{Json: []byte(chatBody("x", `,"stream":true`))},
		})
		if err != nil {
			t.Fatal(err)
		}
		<-ended
		for err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.Canceled {
			t.Errorf("the call ended with %v, want Canceled", err)
		}
	}
}

func TestAPanicBehindACallerIsAnError(t *testing.T) {
	client := startBefore(t, connect(t, &processor{handler: func(*generationv1.Request, sender) error { panic("boom") }}))
	stream, err := client.ChatCompletions(t.Context(), &frontendv1.ChatCompletionsRequest{
		Request: &frontendv1.ChatCompletionsRequest_Json{Json: []byte(chatBody("x", ""))},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("the call ended with %v, want Internal", err)
	}
}

func typed(r *generationv1.Request) *frontendv1.ChatCompletionsRequest {
	return &frontendv1.ChatCompletionsRequest{Request: &frontendv1.ChatCompletionsRequest_Typed{Typed: r}}
}

func hello() *generationv1.Request {
	return &generationv1.Request{Model: model, Input: &generationv1.Request_Chat{Chat: &generationv1.Chat{
		Messages: []*generationv1.Message{{Role: "user", Content: "a b"}},
	}}}
}

func TestTypedCallersGetTypedMessages(t *testing.T) {
	p := &processor{}
	client := start(t, p)
	req := hello()
	req.RequestId, req.Stream, req.IncludeUsage = "mine", true, true
	stream, err := client.ChatCompletions(t.Context(), typed(req))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	var done *frontendv1.Done
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range m.GetChunks().GetChunks() {
			if c.GetId() != "mine" || c.GetModel() != model || c.GetCreated() == nil {
				t.Errorf("chunk %v", c)
			}
			text.WriteString(c.GetText())
		}
		done = m.GetDone()
	}
	if text.String() != "a b" || done.GetUsage().GetCompletionTokens() != 2 || done.GetLast().GetId() != "mine" {
		t.Errorf("text %q, done %v", text.String(), done)
	}
	if s := p.request().GetSampling(); s.Seed == nil || s.GetTemperature() != 1 {
		t.Errorf("sampling %v, want it complete", s)
	}
	req.Stream = false
	stream, err = client.ChatCompletions(t.Context(), typed(req))
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if c := m.GetCompletion(); err != nil || c.GetChoices()[0].GetText() != "a b" || c.GetUsage().GetPromptTokens() != 7 {
		t.Errorf("completion %v, %v", m, err)
	}
}

func TestGRPCCallersMaySendJSON(t *testing.T) {
	client := start(t, &processor{})
	stream, err := client.Completions(t.Context(), &frontendv1.CompletionsRequest{
		Request: &frontendv1.CompletionsRequest_Json{Json: []byte(`{"model":"acme/echo","prompt":"x y"}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || m.GetCompletion().GetChoices()[0].GetText() != "x y" {
		t.Errorf("%v, %v", m, err)
	}
}

func TestGRPCErrorsCarryTheDetail(t *testing.T) {
	client := start(t, &processor{})
	unknown, hot, empty := hello(), hello(), hello()
	unknown.Model = "nobody"
	hot.Sampling = &generationv1.Sampling{Temperature: new(float32)}
	*hot.Sampling.Temperature = 3
	empty.Input = nil
	for _, c := range []struct {
		req         *generationv1.Request
		code        codes.Code
		http        int32
		param, name string
	}{
		{unknown, codes.NotFound, 404, "model", "model_not_found"},
		{hot, codes.InvalidArgument, 400, "temperature", "decimal_above_max_value"},
		{empty, codes.InvalidArgument, 400, "messages", "missing_required_parameter"},
	} {
		stream, err := client.ChatCompletions(t.Context(), typed(c.req))
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		st := status.Convert(err)
		if st.Code() != c.code || len(st.Details()) != 1 {
			t.Errorf("%v: %v", c.req, err)
			continue
		}
		if d, ok := st.Details()[0].(*frontendv1.ErrorDetail); !ok || d.GetHttpStatus() != c.http || d.GetParam() != c.param || d.GetCode() != c.name {
			t.Errorf("%v: detail %v", c.req, st.Details()[0])
		}
	}
}

func TestMetricsAndSpansTellOfEachRequestOnce(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	spans := tracetest.NewInMemoryExporter()
	url := serve(t, &processor{}, func(_ *frontend.Config, d *frontend.Deps) {
		d.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		d.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	})
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	post(t, url+"/v1/chat/completions", chatBody("a b", ""), "Traceparent", parent)
	post(t, url+"/v1/chat/completions", chatBody("a b", `,"n":0`))
	do(t, http.MethodGet, url+"/v1/models", "")
	do(t, http.MethodGet, url+"/nowhere", "")
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[[2]string]int64{}
	tokens := int64(0)
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, point := range data.DataPoints {
				kind, _ := point.Attributes.Value("kind")
				code, _ := point.Attributes.Value(attribute.Key("status"))
				switch m.Name {
				case "switchyard.frontend.requests":
					got[[2]string{kind.AsString(), code.Emit()}] = point.Value
				case "switchyard.frontend.completion_tokens":
					tokens = point.Value
				case "switchyard.frontend.active_requests":
					if point.Value != 0 {
						t.Errorf("%d active requests", point.Value)
					}
				}
			}
		}
	}
	for _, want := range [][2]string{{"chat.completions", "200"}, {"chat.completions", "400"}, {"models", "200"}, {"other", "404"}} {
		if got[want] != 1 {
			t.Errorf("%v counted %d times in %v", want, got[want], got)
		}
	}
	if tokens != 2 {
		t.Errorf("%d completion tokens", tokens)
	}
	if ended := spans.GetSpans(); len(ended) != 4 || ended[0].Name != "frontend.request" || ended[0].SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("%d spans, the first %v; want one a request, in the client's trace", len(ended), ended[0].SpanContext)
	}
}
