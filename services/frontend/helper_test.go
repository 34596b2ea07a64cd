package frontend_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/rpc/local"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/frontend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const model = "acme/echo"

// sender is the server's end of a Generate.
type sender = grpc.ServerStreamingServer[processorv1.GenerateResponse]

// processor is one that works: it answers with the words of the prompt, one per token. A
// test may put its own handler in the place of that.
type processor struct {
	processorv1.UnimplementedProcessorServer
	handler func(*generationv1.Request, sender) error

	bare atomic.Bool // it serves no model

	mu       sync.Mutex
	last     *generationv1.Request
	tokenize *processorv1.TokenizeRequest
}

func (p *processor) Generate(in *processorv1.GenerateRequest, out sender) error {
	p.mu.Lock()
	p.last = in.GetRequest()
	p.mu.Unlock()
	if p.handler != nil {
		return p.handler(in.GetRequest(), out)
	}
	return echo(in.GetRequest(), out)
}

func (p *processor) request() *generationv1.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func (p *processor) Models(context.Context, *processorv1.ModelsRequest) (*processorv1.ModelsResponse, error) {
	if p.bare.Load() {
		return &processorv1.ModelsResponse{}, nil
	}
	return &processorv1.ModelsResponse{Models: []*processorv1.Model{{Name: model, ContextTokens: 8192, CreatedUnix: 1700000000}, {Name: "b"}}}, nil
}

// Tokenize makes a token of each byte.
func (p *processor) Tokenize(_ context.Context, in *processorv1.TokenizeRequest) (*processorv1.TokenizeResponse, error) {
	p.mu.Lock()
	p.tokenize = in
	p.mu.Unlock()
	if in.GetRequest().GetModel() != model {
		return nil, rpc.NotFound("model", in.GetRequest().GetModel())
	}
	out := &processorv1.TokenizeResponse{ContextTokens: 8192}
	for _, b := range []byte(in.GetRequest().GetText()) {
		out.Tokens = append(out.Tokens, uint32(b))
		if in.GetReturnTexts() {
			out.Texts = append(out.Texts, string(rune(b)))
		}
	}
	return out, nil
}

// Detokenize makes a byte of each token.
func (p *processor) Detokenize(_ context.Context, in *processorv1.DetokenizeRequest) (*processorv1.DetokenizeResponse, error) {
	if in.GetRequest().GetModel() != model {
		return nil, rpc.NotFound("model", in.GetRequest().GetModel())
	}
	var text []byte
	for _, id := range in.GetRequest().GetTokenIds().GetIds() {
		if id > 127 {
			return nil, rpc.InvalidArgument("tokens", "want ASCII")
		}
		text = append(text, byte(id))
	}
	return &processorv1.DetokenizeResponse{Text: string(text)}, nil
}

// echo answers a request.
func echo(in *generationv1.Request, out sender) error {
	if in.GetModel() != model {
		return rpc.NotFound("model", in.GetModel())
	}
	prompt := in.GetText()
	if messages := in.GetChat().GetMessages(); len(messages) > 0 {
		prompt = messages[len(messages)-1].GetContent()
	}
	words := strings.SplitAfter(prompt, " ")
	if ids := in.GetTokenIds().GetIds(); len(ids) > 0 {
		words = strings.Split(strings.Repeat("t", len(ids)), "")
	}
	finish := generationv1.FinishReason_FINISH_REASON_STOP
	if most := in.GetLimits().GetMaxTokens(); most > 0 && int(most) < len(words) {
		words, finish = words[:most], generationv1.FinishReason_FINISH_REASON_LENGTH
	}
	if in.GetPrompts() != nil || in.GetBestOf() > in.GetChoices() {
		return rpc.InvalidArgument("request", "frontends must not ask for this")
	}
	if in.GetEcho() {
		for choice := range in.GetChoices() {
			if err := sayFor(out, choice, "echo: "); err != nil {
				return err
			}
		}
	}
	for _, word := range words {
		for choice := range max(in.GetChoices(), 1) {
			if err := sayFor(out, choice, word); err != nil {
				return err
			}
		}
	}
	for choice := range max(in.GetChoices(), 1) {
		if err := endFor(out, choice, finish, uint32(len(words))); err != nil {
			return err
		}
	}
	return nil
}

func say(out sender, text string) error { return sayFor(out, 0, text) }

func sayFor(out sender, choice uint32, text string) error {
	return send(out, &generationv1.Chunk{Choice: choice, Text: text})
}

func send(out sender, c *generationv1.Chunk) error {
	return out.Send(&processorv1.GenerateResponse{Chunks: []*generationv1.Chunk{c}})
}

func end(out sender, finish generationv1.FinishReason, tokens uint32) error {
	return endFor(out, 0, finish, tokens)
}

func endFor(out sender, choice uint32, finish generationv1.FinishReason, tokens uint32) error {
	return send(out, &generationv1.Chunk{
		Choice: choice, FinishReason: finish, Usage: &generationv1.Usage{PromptTokens: 7, CompletionTokens: tokens, CachedTokens: 4},
	})
}

// config is the default without anything outside of the test.
func config() frontend.Config {
	cfg := frontend.DefaultConfig()
	cfg.HTTP, cfg.Listen = "127.0.0.1:0", "127.0.0.1:0"
	return cfg
}

// connect makes an in-process client of p.
func connect(t testing.TB, p processorv1.ProcessorServer) processorv1.ProcessorClient {
	t.Helper()
	conn := local.New(local.Options{})
	processorv1.RegisterProcessorServer(conn, p)
	t.Cleanup(conn.Close)
	return processorv1.NewProcessorClient(conn)
}

// serve starts an HTTP server for a frontend on p and returns its URL.
func serve(t testing.TB, p *processor, change func(*frontend.Config, *frontend.Deps)) string {
	t.Helper()
	cfg, deps := config(), frontend.Deps{Processor: connect(t, p)}
	if change != nil {
		change(&cfg, &deps)
	}
	f, err := frontend.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(f.Handler())
	t.Cleanup(func() {
		server.Close()
		f.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return server.URL
}

// post sends a body and returns the answer with its body read.
func post(t testing.TB, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	return do(t, http.MethodPost, url, body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

func do(t testing.TB, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

// chatBody is a chat request; more holds further members, each with a comma before it.
func chatBody(content, more string) string {
	text, _ := json.Marshal(content)
	return `{"model":"` + model + `","messages":[{"role":"user","content":` + string(text) + `}]` + more + `}`
}

// failure is an OpenAI error object.
type failure struct {
	Message string
	Type    string
	Param   *string
	Code    *string
}

func failureOf(t testing.TB, body string) failure {
	t.Helper()
	var v struct{ Error *failure }
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil || v.Error == nil {
		t.Fatalf("%q is no OpenAI error: %v", body, err)
	}
	return *v.Error
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// pipeListener accepts in-memory connections, so that a test can run in a synctest bubble.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects and sends a chat request for a stream; the caller reads the answer.
func (l *pipeListener) stream(t testing.TB, body string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c := l.post(t, "/v1/chat/completions", body)
	return c.Conn, c.reader
}

// asked is a connection on which a request was sent.
type asked struct {
	net.Conn
	reader *bufio.Reader
	start  time.Time
}

func (l *pipeListener) post(t testing.TB, path, body string) *asked {
	t.Helper()
	client, server := net.Pipe()
	l.conns <- server
	r, err := http.NewRequest(http.MethodPost, "http://x"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(client); err != nil {
		t.Fatal(err)
	}
	return &asked{Conn: client, reader: bufio.NewReader(client), start: time.Now()}
}

// answer reads the answer, and tells how long it took.
func (a *asked) answer(t testing.TB) (status int, answer string, took time.Duration) {
	t.Helper()
	resp, err := http.ReadResponse(a.reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data), time.Since(a.start)
}

// panicking is a client whose own code panics.
type panicking struct{ processorv1.ProcessorClient }

func (panicking) Generate(context.Context, *processorv1.GenerateRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[processorv1.GenerateResponse], error) {
	panic("boom")
}

func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }
