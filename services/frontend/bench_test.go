package frontend_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

const (
	benchStreams = 32
	benchTokens  = 64
)

// BenchmarkStream is a request of 64 tokens on each of 32 connections, over TCP: through
// the gateway, and from a handler that writes constant bytes with a flush for each. Client
// and server share the process, so both lines hold the same client. It reports CPU time.
func BenchmarkStream(b *testing.B) {
	b.Run("frontend", func(b *testing.B) {
		url := serve(b, &processor{handler: func(_ *generationv1.Request, out sender) error {
			for range benchTokens {
				if err := say(out, " token"); err != nil {
					return err
				}
			}
			return end(out, generationv1.FinishReason_FINISH_REASON_STOP, benchTokens)
		}}, nil)
		benchmarkStreams(b, url)
	})
	b.Run("frontend at 5 ms a token", func(b *testing.B) {
		url := serve(b, &processor{handler: func(_ *generationv1.Request, out sender) error {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for range benchTokens {
				<-tick.C
				if err := say(out, " token"); err != nil {
					return err
				}
			}
			return end(out, generationv1.FinishReason_FINISH_REASON_STOP, benchTokens)
		}}, nil)
		benchmarkStreams(b, url)
	})
	for _, pace := range []time.Duration{0, 5 * time.Millisecond} {
		name := "constant bytes"
		if pace > 0 {
			name += " at 5 ms a token"
		}
		b.Run(name, func(b *testing.B) {
			event := []byte(`data: {"id":"chatcmpl-0123456789abcdef01234567","object":"chat.completion.chunk","created":1700000000,"model":"acme/echo","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				flusher := w.(http.Flusher)
				var tick *time.Ticker
				if pace > 0 {
					tick = time.NewTicker(pace)
					defer tick.Stop()
				}
				for range benchTokens {
					if tick != nil {
						<-tick.C
					}
					_, _ = w.Write(event)
					flusher.Flush()
				}
			}))
			b.Cleanup(server.Close)
			benchmarkStreams(b, server.URL)
		})
	}
}

func benchmarkStreams(b *testing.B, url string) {
	transport := &http.Transport{MaxIdleConnsPerHost: benchStreams}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	work := make(chan struct{})
	var streams sync.WaitGroup
	for range benchStreams {
		streams.Go(func() {
			for range work {
				benchmarkStream(b, client, url)
			}
		})
	}
	before := cpu(b)
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	streams.Wait()
	used := cpu(b) - before
	b.ReportMetric(float64(used.Microseconds())/float64(b.N)/benchTokens, "cpu-µs/token")
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/request")
}

func benchmarkStream(b *testing.B, client *http.Client, url string) {
	resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chatBody("x", `,"stream":true`)))
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	events, scan := 0, bufio.NewScanner(resp.Body)
	for scan.Scan() {
		if strings.HasPrefix(scan.Text(), "data: ") {
			events++
		}
	}
	if events < benchTokens {
		b.Error(strconv.Itoa(events) + " events")
	}
}

// cpu is the time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
