package e2e

import (
	"net"
	"sync"
	"testing"
)

// gate is a stretch of wire before a server, that a test may hold up; nothing is lost meanwhile.
type gate struct {
	listener net.Listener
	server   string
	held     sync.RWMutex // for writing while it is held up

	mu    sync.Mutex
	conns []net.Conn
	work  sync.WaitGroup
}

func newGate(t *testing.T, server string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, server: server}
	g.work.Go(g.accept)
	t.Cleanup(func() {
		_ = l.Close()
		g.mu.Lock()
		for _, c := range g.conns {
			_ = c.Close()
		}
		g.mu.Unlock()
		g.work.Wait()
	})
	return g
}

func (g *gate) address() string { return g.listener.Addr().String() }

func (g *gate) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", g.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		g.mu.Lock()
		g.conns = append(g.conns, client, server)
		g.mu.Unlock()
		g.work.Go(func() { g.pass(server, client) })
		g.work.Go(func() { g.pass(client, server) })
	}
}

// pass carries bytes until one end closes, and closes the other then.
func (g *gate) pass(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		g.held.RLock()
		_, err = to.Write(buffer[:n])
		g.held.RUnlock()
		if err != nil {
			return
		}
	}
}
