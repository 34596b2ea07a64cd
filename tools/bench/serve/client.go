package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// client sends requests over HTTP/1.1, each on a connection of its own while it is under way.
type client struct {
	http    *http.Client
	base    string // ends with /v1
	path    string
	header  http.Header
	keys    [][]byte
	stream  bool
	timeout time.Duration
	retry   int
}

// dialer opens connections; nil is TCP.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func newClient(cfg *Config, dial dialer) *client {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	}
	header := cfg.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/json")
	if cfg.APIKey != "" {
		header.Set("Authorization", "Bearer "+cfg.APIKey)
	}
	path := "/chat/completions"
	if cfg.Endpoint == Completions {
		path = "/completions"
	}
	base := strings.TrimSuffix(strings.TrimRight(cfg.URL, "/"), "/v1") + "/v1"
	return &client{
		http: &http.Client{Transport: &http.Transport{
			DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: maxConcurrency, ReadBufferSize: 16 << 10, WriteBufferSize: 16 << 10,
			TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
		}},
		base: base, path: base + path, header: header, keys: textKeys[cfg.Endpoint], stream: cfg.Stream, timeout: cfg.Timeout, retry: cfg.Retry,
	}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// firstModel is the first one that the server lists.
func (c *client) firstModel(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/models", nil)
	if err != nil {
		return "", err
	}
	request.Header = c.header
	response, err := c.http.Do(request)
	if err != nil {
		return "", fmt.Errorf("list the models: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("list the models: %w", refused(response))
	}
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return "", fmt.Errorf("list the models: %w", err)
	}
	if len(list.Data) == 0 {
		return "", fmt.Errorf("%s serves no model at present", c.base)
	}
	_, _ = io.Copy(io.Discard, response.Body) // or the connection is not used again
	return list.Data[0].ID, nil
}

// do sends a request and reads its answer into r, whose begin is when it is first sent. It is
// sent again as often as is asked for.
func (c *client) do(ctx context.Context, body []byte, e *events, r *reading) error {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	r.begin = time.Now()
	for try := 0; ; try++ {
		wait, err := c.once(ctx, body, e, r)
		if err == nil || wait == 0 {
			return err
		}
		r.sample.Limited++
		if try == c.retry {
			return err
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// once answers also how long a client has to wait that may send a request again, else 0.
func (c *client) once(ctx context.Context, body []byte, e *events, r *reading) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header = c.header // the transport only reads it
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		fault := refused(response)
		if response.StatusCode == http.StatusTooManyRequests {
			return retryAfter(response.Header), fault
		}
		return 0, fault
	}
	if !c.stream {
		return 0, r.whole(response.Body)
	}
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return 0, &fault{"no stream", "the content is " + short(kind)}
	}
	e.reset(response.Body)
	return 0, r.stream(e)
}

// retryAfter is a second where the server does not say, or gives a date.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseFloat(h.Get("Retry-After"), 64)
	if err != nil || !(seconds > 0) {
		return time.Second
	}
	return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
}

// faultOf tells kinds of errors apart.
func faultOf(err error) *fault {
	var known *fault
	var op *net.OpError
	kind := "connection"
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.DeadlineExceeded):
		kind = "timeout"
	case errors.As(err, &op) && op.Op == "dial":
		kind = "connect"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		kind = "ended early"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		kind = "connection reset"
	case errors.Is(err, errLongEvent):
		kind = "malformed event"
	}
	return &fault{kind, short(err.Error())}
}

// sleep waits, and tells whether the context is still wanted.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
