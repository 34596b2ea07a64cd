// Package rpc makes the gRPC servers and connections of all services alike, and carries
// errors across them.
//
// A Server has health, tracing, metrics, limits and keepalive; a panic of a handler fails
// its call only. Dial makes connections that notice a dead peer and come back quickly.
// Errors made here keep their code, field, reason and retry time on the other side: this
// package is the one place where errors become gRPC codes and are read back.
//
// It knows no service and no discovery: services register themselves, and resolvers are
// handed to Dial. Serve waits for the goroutines it starts; a connection's end with Close.
package rpc
