// Package zmq speaks vLLM's form of KV events, in and out: msgpack batches over ZeroMQ, numbered
// from 0, with a second socket that replays the last of them.
//
// Subscriber follows an engine's publisher and gives a kvevent.Sink the same calls as a
// kvevent.Follower does. An engine's hashes cannot be computed here (their seed is the engine's own), so
// the tokens that come with them are hashed anew and the two are mapped. Server is a kvevent.Output in
// the same form, for routers that read it.
//
// What either needs of ZeroMQ is small and is in here: ZMTP 3.0 without security over TCP. Whatever a peer
// sends takes no more memory than its bytes, and at most what the limits say. The goroutines of both
// live within their Run.
package zmq
