package tcp

import (
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newStream uses the descriptor of the socket where it has one.
func newStream(socket net.Conn, m *meter) stream {
	if s, ok := socket.(*net.TCPConn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return newDirect(s, raw, m)
		}
	}
	return &copied{socket: socket, meter: m}
}

// direct moves bytes between the socket and the memory by readv and writev. The gates are
// held during the system calls, which do not wait, and never between them.
type direct struct {
	socket *net.TCPConn
	raw    syscall.RawConn
	meter  *meter

	// What a call of readv is about.
	in struct {
		v     *vector
		p     *passage
		spare []byte
		n     int // bytes that went to spare
		err   error
		iov   []unix.Iovec
	}
	// What a call of send is about.
	out struct {
		head    []byte
		v       *vector
		p       *passage
		bytes   int // of v that may be sent now
		tail    []byte
		trailer [trailerBytes]byte
		err     error
		iov     []unix.Iovec
	}
	tryRead, tryWrite func(fd uintptr) bool // made once
}

func newDirect(s *net.TCPConn, raw syscall.RawConn, m *meter) *direct {
	d := &direct{socket: s, raw: raw, meter: m}
	d.in.iov = make([]unix.Iovec, 0, maxRuns+1)
	d.out.iov = make([]unix.Iovec, 0, maxRuns+2)
	d.tryRead, d.tryWrite = d.readOnce, d.writeSome
	return d
}

func (d *direct) Read(b []byte) (int, error) {
	n, err := d.socket.Read(b)
	if n > 0 {
		d.meter.heard.Store(true)
		return n, nil
	}
	return 0, err
}

func (d *direct) readv(v *vector, p *passage, spare []byte) (int, error) {
	d.in.v, d.in.p, d.in.spare, d.in.n, d.in.err = v, p, spare, 0, nil
	if err := d.raw.Read(d.tryRead); err != nil {
		return 0, err
	}
	return d.in.n, d.in.err
}

// readOnce tells whether readv is done; else the socket is waited for.
func (d *direct) readOnce(fd uintptr) bool {
	in := &d.in
	if !in.p.enter() {
		return true
	}
	defer in.p.leave()
	limit := in.p.room(in.v)
	in.iov = appendSpans(in.iov[:0], in.v, limit)
	if limit == in.v.bytes {
		in.iov = appendBytes(in.iov, in.spare)
	}
	n, errno := vectored(unix.SYS_READV, fd, in.iov)
	switch {
	case errno == unix.EAGAIN:
		return false
	case errno != 0:
		in.err = errno
	case n == 0:
		in.err = io.EOF
	default:
		d.meter.heard.Store(true)
		mine := min(n, limit)
		in.p.passed(in.v, mine)
		in.n = n - mine
	}
	return true
}

func (d *direct) send(head []byte, v *vector, p *passage) error {
	d.meter.writing.Store(true)
	defer d.meter.writing.Store(false)
	o := &d.out
	o.head, o.v, o.p, o.tail, o.bytes, o.err = head, v, p, nil, 0, nil
	if v == nil {
		return d.write()
	}
	for left := v.bytes; left > 0; left -= o.bytes {
		o.bytes = left
		if p.digest != nil && p.err == nil {
			o.bytes = min(left, stretchBytes)
			d.hash()
		}
		if o.bytes == left {
			o.tail = p.seal(&o.trailer)
		}
		sent := o.bytes
		if err := d.write(); err != nil {
			return err
		}
		o.bytes = sent
	}
	return nil
}

// hash goes over the bytes that are sent next, without consuming them.
func (d *direct) hash() {
	o := &d.out
	if !o.p.enter() {
		return
	}
	defer o.p.leave()
	o.p.digest.stretch(o.v, o.v.place, o.bytes)
}

func (d *direct) write() error {
	if err := d.raw.Write(d.tryWrite); err != nil {
		return err
	}
	return d.out.err
}

// writeSome tells whether all was sent; else the socket is waited for.
func (d *direct) writeSome(fd uintptr) bool {
	o := &d.out
	for len(o.head)+o.bytes+len(o.tail) > 0 {
		n, errno := d.writeOnce(fd)
		switch {
		case errno == unix.EAGAIN:
			return false
		case errno != 0:
			o.err = errno
			return true
		}
		d.meter.wrote.Store(true)
		n = cut(&o.head, n)
		if m := min(n, o.bytes); m > 0 {
			o.v.skip(m)
			o.bytes -= m
			n -= m
		}
		cut(&o.tail, n)
	}
	return true
}

func (d *direct) writeOnce(fd uintptr) (int, syscall.Errno) {
	o := &d.out
	o.iov = appendBytes(o.iov[:0], o.head)
	if o.bytes > 0 {
		if o.p.enter() {
			defer o.p.leave()
			o.iov = appendSpans(o.iov, o.v, o.bytes)
		} else {
			for left := o.bytes; left > 0; left -= len(zeros) {
				o.iov = appendBytes(o.iov, zeros[:min(left, len(zeros))])
			}
			if o.tail != nil { // no byte of it was sent: it comes after the bytes
				o.tail = o.p.seal(&o.trailer)
			}
		}
	}
	o.iov = appendBytes(o.iov, o.tail)
	return vectored(unix.SYS_WRITEV, fd, o.iov)
}

// zeros take the place of bytes that must not be sent any more.
var zeros [scratchBytes]byte

// cut consumes up to n bytes of b and returns how many of n are left.
func cut(b *[]byte, n int) int {
	m := min(len(*b), n)
	*b = (*b)[m:]
	return n - m
}

func appendBytes(iov []unix.Iovec, b []byte) []unix.Iovec {
	if len(b) == 0 {
		return iov
	}
	iov = append(iov, unix.Iovec{Base: unsafe.SliceData(b)})
	iov[len(iov)-1].SetLen(len(b))
	return iov
}

// appendSpans appends the first n bytes of v.
func appendSpans(iov []unix.Iovec, v *vector, n int) []unix.Iovec {
	for at := v.place; n > 0; {
		b := v.run(at, n)
		iov = appendBytes(iov, b)
		at = v.after(at, len(b))
		n -= len(b)
	}
	return iov
}

func vectored(call uintptr, fd uintptr, iov []unix.Iovec) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.Syscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(iov))), uintptr(len(iov)))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, errno
		}
		return int(n), 0
	}
}
