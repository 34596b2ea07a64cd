package frontend

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// firstReadBytes is what is allocated for a body whatever length it announces.
const firstReadBytes = 64 << 10

// readBody reads a request's body, uncompressed and up to the limit.
func (e *edge) readBody(x *exchange, r *http.Request) ([]byte, error) {
	if err := checkContentType(r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	limit := int64(e.f.cfg.MaxBodyBytes)
	if r.ContentLength > limit {
		x.Header().Set("Connection", "close") // the rest will not be read
		return nil, tooLarge(limit)
	}
	body := io.Reader(http.MaxBytesReader(x.writer, r.Body, limit))
	switch encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return nil, bodyError(err, limit)
		}
		// One byte more than allowed shows that there is more.
		body = io.LimitReader(unzipped, limit+1)
	default:
		return nil, openai.Refuse(http.StatusUnsupportedMediaType, "unsupported_content_encoding", "",
			"Unsupported content encoding: '%s'. Use gzip or none.", encoding)
	}
	buffer := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 512), firstReadBytes)+bytes.MinRead))
	if _, err := buffer.ReadFrom(body); err != nil {
		return nil, bodyError(err, limit)
	}
	if int64(buffer.Len()) > limit {
		return nil, tooLarge(limit)
	}
	// From here on the connection is only read to see the client leave.
	_ = x.wire.SetReadDeadline(time.Time{})
	return buffer.Bytes(), nil
}

func tooLarge(limit int64) error {
	return openai.Refuse(http.StatusRequestEntityTooLarge, "request_too_large", "",
		"The request body is too large. Expected at most %d bytes, uncompressed as well.", limit)
}

// bodyError says what a failed read means to the client.
func bodyError(err error, limit int64) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return openai.Refuse(http.StatusRequestTimeout, "request_timeout", "", "The request body did not arrive in time.")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return openai.Refuse(http.StatusBadRequest, "", "", "We could not decompress the body of your request: %v.", err)
	}
	return openai.Refuse(http.StatusBadRequest, "", "", "We could not read the body of your request: %v.", err)
}

// checkContentType accepts JSON, and a client that does not say. Other types are refused
// although the bytes might be JSON: a web page of another origin can send those unasked.
func checkContentType(value string) error {
	if value == "" {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(value); err == nil && kind == "application/json" {
		return nil
	}
	return openai.Refuse(http.StatusUnsupportedMediaType, "unsupported_content_type", "",
		"Unsupported content type: '%.100s'. This API accepts 'application/json'.", value)
}
