package processor_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	nometric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/tokenizertest"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/processor"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	modelName     = "small"
	contextTokens = 256
)

// smallModel has a token for each byte.
func smallModel(t testing.TB) *processor.Model {
	t.Helper()
	pairs := append([]gguf.Pair{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.context_length", Value: uint32(contextTokens)},
	}, tokenizertest.Pairs()...)
	var b bytes.Buffer
	if err := gguf.Write(&b, pairs, nil); err != nil {
		t.Fatal(err)
	}
	file, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	m, err := processor.NewModel(file, modelName)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// members is discovery for tests.
type members struct {
	mu      sync.Mutex
	current discovery.Snapshot
	changed chan struct{}
}

func (m *members) set(list ...*instancev1.Instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = discovery.Snapshot{}
	for _, in := range list {
		m.current.Members = append(m.current.Members, discovery.Member{Instance: in})
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *members) Lost(string, string) {}

func (m *members) Watch(ctx context.Context) iter.Seq[discovery.Snapshot] {
	return func(yield func(discovery.Snapshot) bool) {
		for ctx.Err() == nil {
			m.mu.Lock()
			snapshot, changed := m.current, m.changed
			m.mu.Unlock()
			if !yield(snapshot) {
				return
			}
			select {
			case <-ctx.Done():
			case <-changed:
			}
		}
	}
}

type registration struct{}

func (registration) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// instance is what a worker registers.
func instance(w *workertest.Worker) *instancev1.Instance {
	return &instancev1.Instance{
		Id: w.Name, Incarnation: w.Incarnation, Role: instancev1.Role_ROLE_DECODE_WORKER, Address: w.Address,
		Started: timestamppb.New(time.Unix(1000, 0)),
		Model:   &instancev1.ModelCard{Name: modelName, ContextTokens: contextTokens, BlockTokens: 16, PoolBlocks: 64},
	}
}

// harness is a running processor.
type harness struct {
	processorv1.ProcessorClient
	processor *processor.Processor
	members   *members
	prefills  *members
	stop      func() // ends Run and waits for it; idempotent
}

type options struct {
	config func(*processor.Config)
	deps   func(*processor.Deps)
	tracer trace.TracerProvider
	meter  metric.MeterProvider
}

func start(t testing.TB, o options, workers ...*workertest.Worker) *harness {
	t.Helper()
	cfg := processor.DefaultConfig()
	cfg.Drain = 5 * time.Second
	if o.config != nil {
		o.config(&cfg)
	}
	if o.tracer == nil {
		o.tracer = notrace.NewTracerProvider()
	}
	if o.meter == nil {
		o.meter = nometric.NewMeterProvider()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{members: &members{changed: make(chan struct{})}, prefills: &members{changed: make(chan struct{})}}
	deps := processor.Deps{
		Model: smallModel(t), Listener: listener, Server: rpc.NewServer(rpc.ServerOptions{}), Workers: h.members, PrefillWorkers: h.prefills,
		Instance: &instancev1.Instance{Id: "p", Incarnation: "7"},
		Register: func(context.Context, *instancev1.Instance) (processor.Registration, error) {
			return registration{}, nil
		},
		Dial:   func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, rpc.DialOptions{}) },
		Logger: slog.New(slog.DiscardHandler), Tracer: o.tracer, Meter: o.meter,
	}
	if o.deps != nil {
		o.deps(&deps)
	}
	h.processor, err = processor.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	var list []*instancev1.Instance
	for _, w := range workers {
		list = append(list, instance(w))
	}
	h.members.set(list...)
	conn, err := rpc.Dial(listener.Addr().String(), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.ProcessorClient = processorv1.NewProcessorClient(conn)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- h.processor.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		h.stop()
	})
	for _, w := range workers { // all attached
		waitHello(t, w)
	}
	if len(workers) > 0 {
		if err := h.processor.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func waitHello(t testing.TB, w *workertest.Worker) {
	t.Helper()
	if m := next(t, w); m.GetHello() == nil {
		t.Fatalf("worker %s received %v, want a hello", w.Name, m)
	}
}

func next(t testing.TB, w *workertest.Worker) *decodeworkerv1.AttachRequest {
	t.Helper()
	select {
	case m := <-w.Received:
		return m
	case <-time.After(10 * time.Second):
		t.Fatalf("worker %s received nothing within 10 s", w.Name)
		return nil
	}
}

// request asks for n tokens after a text.
func request(text string, n int, stop ...string) *generationv1.Request {
	return &generationv1.Request{
		RequestId: "r-" + text, Model: modelName, Input: &generationv1.Request_Text{Text: text},
		Sampling: &generationv1.Sampling{Seed: new(uint64)},
		Limits:   &generationv1.Limits{MaxTokens: ptr(uint32(n)), Stop: stop},
	}
}

func ptr[T any](v T) *T { return &v }

// promptTokens are the tokens of a text in the small vocabulary.
func promptTokens(text string) []uint32 {
	var tokens []uint32
	for _, b := range []byte(text) {
		tokens = append(tokens, tokenizertest.FirstByte+uint32(b))
	}
	return tokens
}

// expected is the text that the workers answer with.
func expected(text string, n int) string {
	var b strings.Builder
	for _, t := range workertest.Tokens(&generationv1.Sequence{Prompt: promptTokens(text), MaxTokens: uint32(n)}) {
		b.WriteByte(byte(t - tokenizertest.FirstByte))
	}
	return b.String()
}

// result is an answer read to its end.
type result struct {
	text   string
	chunks []*generationv1.Chunk
	err    error
}

func (r result) last() *generationv1.Chunk {
	if len(r.chunks) == 0 {
		return nil
	}
	return r.chunks[len(r.chunks)-1]
}

// answer is a stream that is read piece by piece.
type answer struct {
	stream grpc.ServerStreamingClient[processorv1.GenerateResponse]
	result
}

func (h *harness) open(t testing.TB, req *generationv1.Request) *answer {
	t.Helper()
	stream, err := h.Generate(t.Context(), &processorv1.GenerateRequest{Request: req})
	if err != nil {
		t.Fatal(err)
	}
	return &answer{stream: stream}
}

// read reads until n more chunks have come, or more that came with them.
func (a *answer) read(t testing.TB, n int) {
	t.Helper()
	for n += len(a.chunks); len(a.chunks) < n; {
		if !a.next() {
			t.Fatalf("the stream ended after %d chunks: %v", len(a.chunks), a.err)
		}
	}
}

func (a *answer) next() bool {
	m, err := a.stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return false
	case err != nil:
		a.err = err
		return false
	}
	for _, c := range m.GetChunks() {
		a.text += c.GetText()
		a.chunks = append(a.chunks, c)
	}
	return true
}

// rest reads to the end.
func (a *answer) rest() result {
	for a.next() {
	}
	return a.result
}

func (h *harness) generate(ctx context.Context, req *generationv1.Request) result {
	stream, err := h.Generate(ctx, &processorv1.GenerateRequest{Request: req})
	if err != nil {
		return result{err: err}
	}
	return (&answer{stream: stream}).rest()
}

// untilContext waits until the processor knows workers of such a context, 0: no workers.
func (h *harness) untilContext(t testing.TB, tokens uint32) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		m, err := h.Models(t.Context(), &processorv1.ModelsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.GetModels()) == 0 && tokens == 0 || len(m.GetModels()) == 1 && m.GetModels()[0].GetContextTokens() == tokens {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("models are %v, want a context of %d tokens", m.GetModels(), tokens)
		}
	}
}
