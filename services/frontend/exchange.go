package frontend

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"

	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// pieceBytes is what a client has a write timeout for: as much as net/http buffers.
const pieceBytes = 4 << 10

// exchange is one HTTP request and its answer. The gateway sees it as the ResponseWriter;
// the other parts find it in the context. The handler's goroutine and the coroutine of the
// service's method inside it own it, of which only one runs at a time; a method that the
// handler has left behind does not touch it any more.
//
// It decides what the gateway cannot: which status the answer has, whether an error is a
// body or an event, and when bytes go out.
type exchange struct {
	id       string // of the answer, and of the request in the logs
	clientID string // what the client calls its request; may be empty
	worker   string // the only decode worker that the client wants; empty: any
	start    time.Time
	writer   http.ResponseWriter
	wire     *http.ResponseController
	cancel   context.CancelFunc // of the request's context

	writeTimeout time.Duration
	armed        time.Time // when the write deadline was set last
	resets       bool      // a deadline that passes ends the answer, also while nothing is written: HTTP/2

	encoder openai.Encoder
	body    httpbody.HttpBody // what the gateway is given for each message

	// greeted is closed when a keepalive was written that was under way when the answer ended.
	// Nil: there was none.
	greeted <-chan struct{}

	buffer    []byte
	status    int
	streaming bool // the answer is a stream of events
	committed bool // the status is out
	ended     bool // an error was written; nothing may follow
	lost      bool // the client does not take what is written
	counted   bool // the service counts and logs this request
	failure   *openai.Error
}

var (
	_ http.ResponseWriter = (*exchange)(nil)
	_ http.Flusher        = (*exchange)(nil)
)

type exchangeKey struct{}

// exchangeOf finds the exchange of an HTTP request; nil for a gRPC caller's.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// memory is what an exchange writes into.
type memory struct{ buffer, message []byte }

// memories are those of exchanges that have ended.
var memories = sync.Pool{New: func() any { return &memory{} }}

// keepBytes is the largest memory that is kept for another exchange.
const keepBytes = 64 << 10

// lend gives the exchange the memory of one that has ended. What it returns takes it back, when
// nothing is written any more.
func (x *exchange) lend() (back func()) {
	m := memories.Get().(*memory)
	x.buffer, x.body.Data = m.buffer, m.message
	return func() {
		if m.buffer, m.message = x.buffer[:0], x.body.Data[:0]; cap(m.buffer)+cap(m.message) <= keepBytes {
			memories.Put(m)
		}
	}
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.writer.Header() }

// WriteHeader does nothing: the gateway calls it with statuses of its own making.
func (x *exchange) WriteHeader(int) {}

// Write keeps p. It does not fail: once the client is lost, the request's context ends,
// and whoever writes finds out by it.
func (x *exchange) Write(p []byte) (int, error) {
	x.await()
	if !x.ended && !x.lost {
		x.buffer = append(x.buffer, p...)
	}
	return len(p), nil
}

// Flush implements http.Flusher. The gateway calls it after each message.
func (x *exchange) Flush() {
	if x.streaming && len(x.buffer) > 0 {
		x.push()
		x.flushWire()
	}
}

// keepalive writes a comment into a stream that has begun. A vigil calls it while the exchange's
// goroutine waits.
func (x *exchange) keepalive() {
	if !x.committed || x.ended || len(x.buffer) > 0 {
		return
	}
	x.buffer = append(x.buffer, openai.Keepalive...)
	x.push()
	x.flushWire()
}

// fail ends the answer with an error: with its status, or as an event if that is too late.
func (x *exchange) fail(e *openai.Error) {
	x.await()
	if x.ended {
		return
	}
	x.failure, x.ended = e, true
	if x.committed && x.streaming {
		x.buffer = e.AppendEvent(x.buffer)
		return
	}
	x.streaming = false
	x.status = e.HTTPStatus
	x.buffer = e.AppendJSON(x.buffer[:0])
	x.Header().Set("Content-Type", openai.ContentTypeJSON)
	if after := e.RetryAfterHeader(); after != "" {
		x.Header().Set("Retry-After", after)
	}
	if e.HTTPStatus == http.StatusNotImplemented {
		x.Header().Set("X-Should-Retry", "false") // OpenAI's SDKs retry what is above 499
	}
}

// await waits for a keepalive, which a client that does not read may hold up.
func (x *exchange) await() {
	if x.greeted != nil {
		<-x.greeted
		x.greeted = nil
	}
}

// finish writes what is left. The handler calls it last.
func (x *exchange) finish() {
	x.await()
	if !x.streaming && !x.committed {
		x.Header().Set("Content-Length", strconv.Itoa(len(x.buffer)))
	}
	x.push()
}

// push writes the buffer.
func (x *exchange) push() {
	if x.lost || x.committed && len(x.buffer) == 0 {
		return
	}
	if !x.committed {
		x.committed = true
		if x.streaming {
			x.Header().Set("Cache-Control", "no-cache")
			x.Header().Set("X-Accel-Buffering", "no") // nginx would collect events
		}
		x.writer.WriteHeader(x.status)
	}
	for rest := x.buffer; len(rest) > 0 && !x.lost; { // a slow client has the time for each piece
		n := min(len(rest), pieceBytes)
		x.arm()
		_, err := x.writer.Write(rest[:n])
		x.note(err)
		rest = rest[n:]
	}
	x.buffer = x.buffer[:0]
}

func (x *exchange) flushWire() {
	if !x.lost {
		x.note(x.wire.Flush())
	}
	if x.resets && !x.armed.IsZero() {
		x.armed = time.Time{}
		_ = x.wire.SetWriteDeadline(x.armed) // as in arm
	}
}

// note ends the request when its client is gone or too slow.
func (x *exchange) note(err error) {
	if err != nil {
		x.lost = true
		x.cancel()
	}
}

// arm sets the deadline of writes anew, but not for each: a quarter of it may be gone.
func (x *exchange) arm() {
	now := time.Now()
	if now.Sub(x.armed) < x.writeTimeout/4 {
		return
	}
	x.armed = now
	// A writer without deadlines, as in tests, has no connection that could block.
	_ = x.wire.SetWriteDeadline(now.Add(x.writeTimeout))
}
