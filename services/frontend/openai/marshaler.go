package openai

import (
	"bytes"
	"fmt"
	"io"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/httpbody"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
)

// Marshaler is the grpc-gateway's view of the dialect. Inwards it keeps the body as it is:
// the gateway would lose what a decoder says of a bad one, so the Frontend's method reads
// it. Outwards it expects bodies that an Encoder has written already.
type Marshaler struct{}

var (
	_ runtime.Marshaler         = Marshaler{}
	_ runtime.Delimited         = Marshaler{}
	_ runtime.StreamContentType = Marshaler{}
)

// NewDecoder returns a decoder that puts all of r into a request's json.
func (m Marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		body, err := readAll(r)
		if err != nil {
			return err
		}
		return m.Unmarshal(body, v)
	})
}

// readAll reads r; those of a Body are taken, not copied.
func readAll(r io.Reader) ([]byte, error) {
	if b, ok := r.(*Body); ok {
		return b.take(), nil
	}
	return io.ReadAll(r)
}

// Unmarshal puts data into a request's json.
func (Marshaler) Unmarshal(data []byte, v any) error {
	switch v := v.(type) {
	case *frontendv1.ChatCompletionsRequest:
		v.Request = &frontendv1.ChatCompletionsRequest_Json{Json: data}
	case *frontendv1.CompletionsRequest:
		v.Request = &frontendv1.CompletionsRequest_Json{Json: data}
	case *frontendv1.TokenizeRequest:
		v.Request = &frontendv1.TokenizeRequest_Json{Json: data}
	case *frontendv1.DetokenizeRequest:
		v.Request = &frontendv1.DetokenizeRequest_Json{Json: data}
	default:
		return fmt.Errorf("no request body goes into a %T", v)
	}
	return nil
}

// Marshal returns the data of an HttpBody, or an error object for the map in which the
// gateway puts the error of a stream.
func (Marshaler) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *httpbody.HttpBody:
		return v.GetData(), nil
	case map[string]proto.Message:
		if st, ok := v["error"].(*spb.Status); ok {
			return ErrorOf(status.ErrorProto(st)).AppendJSON(nil), nil
		}
	}
	return nil, fmt.Errorf("cannot write a %T: want an encoded body", v)
}

// NewEncoder writes what Marshal returns.
func (m Marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := m.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}

// ContentType is the body's own.
func (Marshaler) ContentType(v any) string {
	if body, ok := v.(*httpbody.HttpBody); ok {
		return body.GetContentType()
	}
	return ContentTypeJSON
}

// StreamContentType is the body's own, too.
func (m Marshaler) StreamContentType(v any) string { return m.ContentType(v) }

// Delimiter is empty: events end by themselves.
func (Marshaler) Delimiter() []byte { return nil }

// Body is a request body that was read already. Handing it on costs no copy.
type Body struct {
	data []byte
	rest *bytes.Reader
}

// NewBody returns a body that holds data, which must not change any more.
func NewBody(data []byte) *Body { return &Body{data: data, rest: bytes.NewReader(data)} }

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) { return b.rest.Read(p) }

// Close implements io.Closer. There is nothing to close.
func (b *Body) Close() error { return nil }

func (b *Body) take() []byte {
	b.rest.Reset(nil)
	return b.data
}
