package memory

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seals keep the size of a file constant: a file cut short would kill everyone who
// maps it (SIGBUS).
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// segments is into how many files shared memory is cut, so that Retire replaces no more
// than it must. A message carries the descriptors of 253 at most.
const segments = 16

// segmentUnit is what the size of a file is a multiple of: a huge page, where there are any.
const segmentUnit = 2 << 20

// Shared maps zeroed memory that other processes can map as well, once they are given
// its files. It is backed as it is touched.
func Shared(size int) (*Memory, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	each := roundUp((size+segments-1)/segments, segmentUnit)
	base, err := reserve(roundUp(size, unix.Getpagesize()))
	if err != nil {
		return nil, err
	}
	var files []File
	free := func() error {
		err := unix.MunmapPtr(base, uintptr(roundUp(size, unix.Getpagesize())))
		for _, f := range files {
			err = errors.Join(err, unix.Close(f.FD))
		}
		return err
	}
	for at := 0; at < size; at += each {
		bytes := min(each, roundUp(size-at, unix.Getpagesize()))
		fd, err := newFile(bytes)
		if err != nil {
			return nil, errors.Join(err, free())
		}
		files = append(files, File{fd, bytes})
		if err := mapAt(unsafe.Add(base, at), files[len(files)-1]); err != nil {
			return nil, errors.Join(err, free())
		}
	}
	m := mapped(unsafe.Slice((*byte)(base), size), files, nil)
	m.close = func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		files = m.files // as Retire left them
		m.files = nil
		return free()
	}
	return m, nil
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// reserve finds room for the files side by side.
func reserve(size int) (unsafe.Pointer, error) {
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of addresses: %w", size, err)
	}
	return base, nil
}

// newFile makes a file of zeroes that can be neither cut nor grown.
func newFile(size int) (int, error) {
	fd, err := unix.MemfdCreate("switchyard-kv", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("create a memory file: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return -1, errors.Join(fmt.Errorf("size a memory file to %d bytes: %w", size, err), unix.Close(fd))
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return -1, errors.Join(fmt.Errorf("seal a memory file: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// mapAt maps a file over whatever is at an address.
func mapAt(at unsafe.Pointer, f File) error {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_FIXED
	if _, err := unix.MmapPtr(f.FD, 0, at, uintptr(f.Bytes), prot, flags); err != nil {
		return fmt.Errorf("map a memory file of %d bytes: %w", f.Bytes, err)
	}
	adviseHuge(unsafe.Slice((*byte)(at), f.Bytes))
	return nil
}

// adviseHuge asks for huge pages, which make copies faster. A kernel without them
// refuses, and the memory works as well without.
func adviseHuge(bytes []byte) { _ = unix.Madvise(bytes, unix.MADV_HUGEPAGE) }

// Prefault backs all of the memory now, so that the first writes are as fast as later ones.
func (m *Memory) Prefault() error {
	if m.bytes == nil {
		return nil
	}
	err := unix.Madvise(m.bytes, unix.MADV_POPULATE_WRITE)
	if errors.Is(err, unix.EINVAL) { // a kernel before 5.14
		for i := 0; i < len(m.bytes); i += unix.Getpagesize() {
			m.bytes[i] = 0
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("back %d bytes of memory: %w", m.size, err)
	}
	return nil
}

// Open maps the first bytes of another process's shared memory, over as many of the
// descriptors as it takes; used tells how many. The files must have no way to lose their
// bytes. The descriptors stay the caller's.
func Open(fds []int, size int) (m *Memory, used int, err error) {
	if err := checkSize(size); err != nil {
		return nil, 0, err
	}
	var files []File
	total := 0
	for total < size {
		if used == len(fds) {
			return nil, used, fmt.Errorf("its files have %d bytes, want at least %d", total, size)
		}
		bytes, err := checkFile(fds[used])
		if err != nil {
			return nil, used, err
		}
		files = append(files, File{fds[used], bytes})
		used, total = used+1, total+bytes
	}
	base, err := reserve(total)
	if err != nil {
		return nil, used, err
	}
	free := func() error { return unix.MunmapPtr(base, uintptr(total)) }
	at := base
	for _, f := range files {
		if err := mapAt(at, f); err != nil {
			return nil, used, errors.Join(err, free())
		}
		at = unsafe.Add(at, f.Bytes)
	}
	return mapped(unsafe.Slice((*byte)(base), size), nil, free), used, nil
}

// checkFile answers the size of a file that keeps it.
func checkFile(fd int) (int, error) {
	set, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("read the seals of its file: %w", err)
	}
	if set&unix.F_SEAL_SHRINK == 0 {
		return 0, fmt.Errorf("its file could be cut short (seals %#x)", set)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return 0, fmt.Errorf("read the size of its file: %w", err)
	}
	if stat.Size < 1 || stat.Size%int64(unix.Getpagesize()) != 0 {
		return 0, fmt.Errorf("its file has %d bytes, want whole pages", stat.Size)
	}
	return int(stat.Size), nil
}
