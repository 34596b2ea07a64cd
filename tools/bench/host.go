package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/inproc"
	"github.com/switchyard-llm/switchyard/libs/nixl/memory"
	"github.com/switchyard-llm/switchyard/libs/nixl/shm"
	"github.com/switchyard-llm/switchyard/libs/nixl/tcp"
)

// Transports lists the transports that can be measured.
func Transports() []string { return []string{"inproc", "shm", "tcp"} }

func known(transport string) bool { return slices.Contains(Transports(), transport) }

// network connects the two agents of this process.
var network = sync.OnceValue(inproc.NewNetwork)

// host is one side: an agent with memory that runs.
type host struct {
	agent  nixl.Agent
	memory *memory.Memory
	region nixl.Region
	folder string
	stop   context.CancelFunc
	ran    chan error
}

func openHost(c TransferConfig, name string) (h *host, err error) {
	h = &host{ran: make(chan error, 1)}
	if h.folder, err = os.MkdirTemp("", "switchyard-bench"); err != nil {
		return nil, err
	}
	if err := h.open(c, name); err != nil {
		return nil, errors.Join(fmt.Errorf("open an agent of transport %s: %w", c.Transport, err), os.RemoveAll(h.folder))
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go func() { h.ran <- h.agent.Run(ctx) }()
	return h, nil
}

func (h *host) open(c TransferConfig, name string) (err error) {
	if h.memory, err = c.memory(c.Blocks * c.BlockBytes); err != nil {
		return err
	}
	for i := range h.memory.Bytes() { // what is touched now is not measured
		h.memory.Bytes()[i] = byte(i)
	}
	if h.agent, err = newAgent(c, name, h.folder); err != nil {
		return errors.Join(err, h.memory.Close())
	}
	if h.region, err = h.agent.Register(h.memory, c.layout(), c.Blocks); err != nil {
		return errors.Join(err, h.agent.Close(), h.memory.Close())
	}
	return nil
}

// memory is of the kind that the transport registers.
func (c TransferConfig) memory(size int) (*memory.Memory, error) {
	if c.Transport == "shm" {
		return memory.Shared(size)
	}
	return memory.Anonymous(size)
}

func newAgent(c TransferConfig, name, folder string) (nixl.Agent, error) {
	base := nixl.Config{Name: name, Incarnation: fmt.Sprint(os.Getpid(), time.Now().UnixNano()), KVFormat: "bench"}
	switch c.Transport {
	case "inproc":
		return network().NewAgent(base)
	case "shm":
		return shm.New(shm.Config{Config: base, Socket: filepath.Join(folder, name+".sock")})
	}
	t := tcp.Config{Config: base, Listen: c.Listen, Advertise: c.Advertise}
	if !c.Verify {
		t.Verify = tcp.VerifyOff
	}
	return tcp.New(t)
}

func (h *host) close() error {
	h.stop()
	err := h.agent.Close()
	if ran := <-h.ran; !errors.Is(ran, nixl.ErrClosed) { // which only says that Run came after Close
		err = errors.Join(err, ran)
	}
	return errors.Join(err, h.region.Close(), h.memory.Close(), os.RemoveAll(h.folder))
}

// allow lets a peer touch all blocks.
func (h *host) allow(peer nixl.PeerID) error {
	refs := make([]block.Ref, h.region.Blocks())
	for i := range refs {
		refs[i].ID = block.ID(i)
	}
	return errors.Join(
		h.agent.Allow(peer, nixl.Grant{Number: everything, Op: nixl.Write, Blocks: refs}),
		h.agent.Allow(peer, nixl.Grant{Number: everything, Op: nixl.Read, Blocks: refs}))
}

// echo returns notes until the agent is closed.
func (h *host) echo() {
	for {
		e, err := h.agent.Receive(context.Background())
		if err != nil {
			return
		}
		if !e.Gone {
			_ = h.agent.Notify(context.Background(), e.Peer, e.Payload) // a peer that has left
		}
	}
}

// connect makes own a peer of the target: one of this process, or that of Serve at an address.
func connect(ctx context.Context, c TransferConfig, own *host, to string) (nixl.PeerID, func() error, error) {
	if to != "" {
		return dial(ctx, c, own, to)
	}
	target, err := openHost(c, "target")
	if err != nil {
		return nixl.PeerID{}, nil, err
	}
	var echoing sync.WaitGroup
	echoing.Go(target.echo)
	closeTarget := func() error { err := target.close(); echoing.Wait(); return err }
	m, err := target.agent.Metadata()
	if err == nil {
		err = target.allow(own.agent.ID())
	}
	if err == nil {
		_, err = own.agent.AddPeer(ctx, m)
	}
	if err != nil {
		return nixl.PeerID{}, nil, errors.Join(err, closeTarget())
	}
	return target.agent.ID(), closeTarget, nil
}

// wish is what the writer asks of the other host, one line of JSON.
type wish struct {
	Transport  string
	BlockBytes int
	Blocks     int
	Verify     bool
	Writer     nixl.PeerID
}

// offer is the answer.
type offer struct {
	Metadata json.RawMessage
	Error    string
}

const (
	dialTimeout = 10 * time.Second
	turnWithin  = time.Second // the last writer may be gone and its agent not yet closed
	maxOffer    = 1 << 20     // bytes; what agents say of themselves is far less
)

func dial(ctx context.Context, c TransferConfig, own *host, to string) (nixl.PeerID, func() error, error) {
	d := net.Dialer{Timeout: dialTimeout}
	control, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return nixl.PeerID{}, nil, fmt.Errorf("reach the other side: %w", err)
	}
	fail := func(err error) (nixl.PeerID, func() error, error) {
		_ = control.Close() // which may have been done already; the error that matters is known
		return nixl.PeerID{}, nil, fmt.Errorf("ask the other side at %s: %w", to, err)
	}
	w := wish{c.Transport, c.BlockBytes, c.Blocks, c.Verify, own.agent.ID()}
	o, err := ask(ctx, control, w)
	if err != nil {
		return fail(err)
	}
	id, err := own.agent.AddPeer(ctx, o.Metadata)
	if err != nil {
		return fail(err)
	}
	return id, control.Close, nil
}

// ask sends a wish and waits for its offer, but not forever: the other side may be
// anything that listens.
func ask(ctx context.Context, control net.Conn, w wish) (offer, error) {
	defer context.AfterFunc(ctx, func() { control.Close() })()
	if err := control.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return offer{}, err
	}
	if err := json.NewEncoder(control).Encode(w); err != nil {
		return offer{}, err
	}
	var o offer
	err := json.NewDecoder(io.LimitReader(control, maxOffer)).Decode(&o)
	switch {
	case ctx.Err() != nil:
		return offer{}, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return offer{}, fmt.Errorf("no answer for %v: %w", dialTimeout, err)
	case err != nil:
		return offer{}, fmt.Errorf("its answer is not that of bench transfer --serve: %w", err)
	case o.Error != "":
		return offer{}, errors.New(o.Error)
	case len(o.Metadata) == 0:
		return offer{}, errors.New("its answer has no metadata")
	}
	return o, control.SetDeadline(time.Time{})
}

// Serve is the other side of Transfer until ctx ends: it opens an agent as each writer
// wishes, one writer at a time. Of c it uses Listen, the host of which agents listen on, and Advertise.
func Serve(ctx context.Context, c TransferConfig, log func(string)) error {
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	log("waiting for a writer at " + listener.Addr().String())
	var serving sync.WaitGroup
	defer serving.Wait()
	turn := make(chan struct{}, 1) // a second measurement would spoil the first
	for {
		control, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		serving.Go(func() {
			defer control.Close()
			if err := serveOne(ctx, c, control, turn); err != nil {
				log(fmt.Sprintf("%s: %v", control.RemoteAddr(), err))
			}
		})
	}
}

func serveOne(ctx context.Context, c TransferConfig, control net.Conn, turn chan struct{}) error {
	defer context.AfterFunc(ctx, func() { control.Close() })()
	var w wish
	reader := bufio.NewReaderSize(control, 4096)
	if err := control.SetReadDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read the wish: %w", err)
	}
	if err := json.Unmarshal(line, &w); err != nil {
		return fmt.Errorf("read the wish: %w", err)
	}
	over := time.NewTimer(turnWithin)
	defer over.Stop()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-over.C:
		err := errors.New("another writer is at work")
		return errors.Join(err, json.NewEncoder(control).Encode(offer{Error: err.Error()}))
	}
	target, metadata, err := grant(c, w)
	answer := offer{Metadata: metadata}
	if err != nil {
		answer.Error = err.Error()
	}
	if encodeErr := json.NewEncoder(control).Encode(answer); err != nil || encodeErr != nil {
		return errors.Join(err, encodeErr)
	}
	var echoing sync.WaitGroup
	echoing.Go(target.echo)
	if err := control.SetReadDeadline(time.Time{}); err == nil {
		_, _ = reader.ReadByte() // the writer closes when it is done
	}
	err = target.close()
	echoing.Wait()
	return err
}

// grant opens what a writer wishes for.
func grant(c TransferConfig, w wish) (*host, []byte, error) {
	wanted := TransferConfig{
		Transport: w.Transport, BlockBytes: w.BlockBytes, Blocks: w.Blocks, Verify: w.Verify, Seconds: 1, Advertise: c.Advertise,
	}
	if err := wanted.Validate(); err != nil {
		return nil, nil, err
	}
	if w.Transport == "inproc" {
		return nil, nil, errors.New("inproc does not lead to another process")
	}
	name, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, nil, err
	}
	wanted.Listen = net.JoinHostPort(name, "0")
	target, err := openHost(wanted, "target")
	if err != nil {
		return nil, nil, err
	}
	metadata, err := target.agent.Metadata()
	if err == nil {
		err = target.allow(w.Writer)
	}
	if err != nil {
		return nil, nil, errors.Join(err, target.close())
	}
	return target, metadata, nil
}
