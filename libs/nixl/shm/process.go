//go:build linux

package shm

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// process is the other end of a socket.
type process struct {
	pid   int
	pidfd *os.File // readable once the process has ended
}

// identify finds the process that connected c, or that listened for it, and refuses
// other users. With usePeerPidfd off it takes the way of kernels before 6.5.
func identify(c *net.UnixConn, usePeerPidfd bool) (p process, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return process{}, err
	}
	controlErr := raw.Control(func(fd uintptr) { p, err = identifyFD(int(fd), usePeerPidfd) })
	return p, errors.Join(err, controlErr)
}

func identifyFD(socket int, usePeerPidfd bool) (process, error) {
	cred, err := credentials(socket)
	if err != nil {
		return process{}, err
	}
	if usePeerPidfd {
		fd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if err == nil {
			return newProcess(int(cred.Pid), fd)
		}
	}
	return identifyByPID(socket, int(cred.Pid))
}

// identifyByPID opens the pid and then makes sure that the socket is still open:
// its process had not ended, so the pid had not passed to another.
func identifyByPID(socket, pid int) (process, error) {
	if pid <= 0 {
		return process{}, fmt.Errorf("%w: its process is not in our pid namespace", nixl.ErrUnreachable)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return process{}, fmt.Errorf("%w: open its pid %d: %w", nixl.ErrUnreachable, pid, err)
	}
	events := []unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN}}
	if _, err := unix.Poll(events, 0); err != nil || events[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
		unix.Close(fd)
		return process{}, fmt.Errorf("%w: it left before its pid %d could be opened", nixl.ErrUnreachable, pid)
	}
	return newProcess(pid, fd)
}

// newProcess hands the pidfd to the runtime's poller, which needs it non-blocking.
func newProcess(pid, fd int) (process, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return process{}, fmt.Errorf("%w: pidfd of %d: %w", nixl.ErrUnreachable, pid, err)
	}
	return process{pid, os.NewFile(uintptr(fd), "pidfd")}, nil
}

// wait returns true when the process has ended, false when the pidfd was closed.
func (p process) wait() bool {
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	ended := false
	err = raw.Read(func(fd uintptr) bool {
		ended = hasEnded(int(fd))
		return ended
	})
	return err == nil && ended
}

// ended asks without waiting.
func (p process) ended() bool {
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	ended := false
	err = raw.Control(func(fd uintptr) { ended = hasEnded(int(fd)) })
	return err == nil && ended
}

func hasEnded(pidfd int) bool {
	events := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(events, 0)
		if err != unix.EINTR {
			return err == nil && n == 1 && events[0].Revents&unix.POLLIN != 0
		}
	}
}

// checkUser refuses a listening process of another user.
func checkUser(c *net.UnixConn) (err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(fd uintptr) { _, err = credentials(int(fd)) })
	return errors.Join(err, controlErr)
}

func credentials(socket int) (*unix.Ucred, error) {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("%w: read its credentials: %w", nixl.ErrUnreachable, err)
	}
	if own := os.Geteuid(); int(cred.Uid) != own && cred.Uid != 0 {
		return nil, fmt.Errorf("%w: it belongs to user %d, want %d", nixl.ErrUnreachable, cred.Uid, own)
	}
	return cred, nil
}
