package memory

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// seals keep the size of the file constant: a file cut short would kill everyone who
// maps it (SIGBUS).
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Shared maps zeroed memory that other processes can map as well, once they are given
// its file. It is backed as it is touched.
func Shared(size int) (*Memory, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("switchyard-kv", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create a memory file: %w", err)
	}
	m, err := mapFile(fd, size)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return m, nil
}

func mapFile(fd, size int) (*Memory, error) {
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, fmt.Errorf("size a memory file to %d bytes: %w", size, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal a memory file: %w", err)
	}
	bytes, err := mapShared(fd, size)
	if err != nil {
		return nil, err
	}
	return mapped(bytes, fd, func() error { return errors.Join(unix.Munmap(bytes), unix.Close(fd)) }), nil
}

func mapShared(fd, size int) ([]byte, error) {
	bytes, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map a memory file of %d bytes: %w", size, err)
	}
	adviseHuge(bytes)
	return bytes, nil
}

// adviseHuge asks for huge pages, which make copies faster. A kernel without them
// refuses, and the memory works as well without.
func adviseHuge(bytes []byte) { _ = unix.Madvise(bytes, unix.MADV_HUGEPAGE) }

// Open maps the first bytes of another process's shared memory, whose file must have them
// and no way to lose them. The descriptor stays the caller's.
func Open(fd, size int) (*Memory, error) {
	if err := checkFile(fd, size); err != nil {
		return nil, err
	}
	bytes, err := mapShared(fd, size)
	if err != nil {
		return nil, err
	}
	return mapped(bytes, -1, func() error { return unix.Munmap(bytes) }), nil
}

func checkFile(fd, size int) error {
	set, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("read the seals of its file: %w", err)
	}
	if set&unix.F_SEAL_SHRINK == 0 {
		return fmt.Errorf("its file could be cut short (seals %#x)", set)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("read the size of its file: %w", err)
	}
	if stat.Size < int64(size) {
		return fmt.Errorf("its file has %d bytes, want at least %d", stat.Size, size)
	}
	return nil
}
