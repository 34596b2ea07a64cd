package tcp

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy stands in the way of connections: it delays, narrows, freezes and damages them.
type proxy struct {
	listener    net.Listener
	delay       time.Duration
	bytesPerSec int // 0: as fast as it goes
	damage      func(up bool, b []byte)
	done        chan struct{}
	running     sync.WaitGroup

	mu     sync.Mutex
	to     string
	thaw   chan struct{} // closed unless frozen
	frozen bool
	open   map[net.Conn]bool
	ended  bool
}

func newProxy(t testing.TB, change ...func(*proxy)) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, done: make(chan struct{}), thaw: make(chan struct{}), open: make(map[net.Conn]bool)}
	close(p.thaw)
	for _, f := range change {
		f(p)
	}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		close(p.done)
		l.Close()
		p.cut(true)
		p.running.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// lead lets later connections go to an address.
func (p *proxy) lead(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

func (p *proxy) target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.DialTimeout("tcp", p.target(), time.Second)
		if err != nil {
			near.Close()
			continue
		}
		if !p.track(near, far) {
			return
		}
		p.running.Go(func() { p.pump(near, far, true) })
		p.running.Go(func() { p.pump(far, near, false) })
	}
}

func (p *proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.ended {
			c.Close()
		} else {
			p.open[c] = true
		}
	}
	return !p.ended
}

// cut closes all connections, as a middlebox does that forgets them.
func (p *proxy) cut(forGood bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = p.ended || forGood
	for c := range p.open {
		c.Close()
		delete(p.open, c)
	}
}

// freeze lets nothing through until it is called with false, as a cut cable does.
func (p *proxy) freeze(frozen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if frozen && !p.frozen {
		p.thaw = make(chan struct{})
	} else if !frozen && p.frozen {
		close(p.thaw)
	}
	p.frozen = frozen
}

type parcel struct {
	bytes []byte
	due   time.Time
}

func (p *proxy) pump(from, to net.Conn, up bool) {
	parcels := make(chan parcel, 256)
	p.running.Go(func() {
		for x := range parcels {
			if !p.wait(time.Until(x.due)) {
				continue
			}
			if _, err := to.Write(x.bytes); err != nil {
				from.Close()
			}
			if p.bytesPerSec > 0 {
				p.wait(time.Duration(len(x.bytes)) * time.Second / time.Duration(p.bytesPerSec))
			}
		}
		if c, ok := to.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	})
	defer close(parcels)
	for {
		b := make([]byte, 64<<10)
		n, err := from.Read(b)
		if n > 0 {
			if p.damage != nil {
				p.damage(up, b[:n])
			}
			parcels <- parcel{b[:n], time.Now().Add(p.delay)}
		}
		if err != nil {
			if err != io.EOF {
				to.Close()
			}
			return
		}
	}
}

// wait lasts that long, and until the proxy is not frozen; false at the test's end.
func (p *proxy) wait(d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.done:
			return false
		}
	}
	p.mu.Lock()
	thaw := p.thaw
	p.mu.Unlock()
	select {
	case <-thaw:
		return true
	case <-p.done:
		return false
	}
}
