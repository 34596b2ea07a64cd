// Package embedded runs etcd and NATS inside this process: the servers behind
// `switchyard serve`, and what tests use in place of mocks.
//
// They are the real servers, on loopback, as single nodes without authentication. They
// are not meant for a deployment of more than one machine: point the services at
// external ones there. Only tools and tests import this package.
//
// A started server owns its goroutines; Close returns after they have ended, up to a few
// that etcd and NATS leave to run out by themselves.
package embedded
