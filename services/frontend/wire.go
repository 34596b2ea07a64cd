package frontend

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// wire is the listener of a server whose own errors, which no handler sees, should read like
// all others: those of requests that are no HTTP, or whose headers are too large.
type wire struct{ net.Listener }

// Accept implements net.Listener.
func (w wire) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		return wireConn{tcp}, nil
	}
	return conn, err
}

// wireConn embeds the type and not the interface: the server looks for its CloseWrite.
type wireConn struct{ *net.TCPConn }

// Write implements net.Conn.
func (c wireConn) Write(p []byte) (int, error) {
	e := ownError(p)
	if e == nil {
		return c.TCPConn.Write(p)
	}
	body := e.AppendJSON(nil)
	answer := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		e.HTTPStatus, http.StatusText(e.HTTPStatus), openai.ContentTypeJSON, len(body))
	if _, err := c.TCPConn.Write(append(answer, body...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

const statusLine = "HTTP/1.1 "

// ownErrorHead is what net/http puts between the status line and the text of an error of its
// own, which goes out in one write. No handler here answers in plain text.
var ownErrorHead = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// ownError reads what the server itself says of a bad request; nil if p is something else.
func ownError(p []byte) *openai.Error {
	if len(p) < len(statusLine)+3 || p[len(statusLine)] < '4' || string(p[:len(statusLine)]) != statusLine {
		return nil
	}
	status, err := strconv.Atoi(string(p[len(statusLine) : len(statusLine)+3]))
	if err != nil {
		return nil
	}
	if status == http.StatusExpectationFailed {
		return openai.Refuse(status, "expectation_failed", "", "Unsupported 'Expect' header. Expected '100-continue' or none.")
	}
	_, text, own := bytes.Cut(p, ownErrorHead)
	switch {
	case !own:
		return nil
	case status == http.StatusRequestHeaderFieldsTooLarge:
		return openai.Refuse(status, "headers_too_large", "", "The request's headers are too large. Expected at most %d bytes.", maxHeader)
	case status == http.StatusNotImplemented:
		return openai.NotImplemented("The request's transfer encoding is not supported. Use chunked or none.")
	}
	return openai.Refuse(status, "", "", "We could not read your HTTP request: %s.", text)
}
