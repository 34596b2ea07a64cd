// Package telemetry gives a process its logger, its traces and its metrics.
//
// Traces are off unless a file or an OTLP endpoint is configured; even then the trace
// context of others passes through. Metrics are kept in a registry of their own and read
// by Prometheus over HTTP. Nothing here is process-wide: what Open returns is handed to
// whoever needs it, so that several services can share a process.
//
// A Telemetry owns the goroutine that exports spans, from Open to Shutdown. ServeHTTP
// waits for all it starts.
package telemetry
