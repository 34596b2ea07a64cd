//go:build linux

package shm

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/region"
)

// seals keep the size of a region's file constant: a file cut short would kill
// everyone who maps it (SIGBUS).
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// createMemory makes a region's file and maps it. The descriptor is the caller's to close.
func createMemory(id nixl.RegionID, info nixl.RegionInfo) (*region.Region, int, error) {
	fd, err := unix.MemfdCreate(fmt.Sprintf("switchyard-kv-%d", id), unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, -1, fmt.Errorf("create a memory file: %w", err)
	}
	r, err := sizeMemory(id, info, fd)
	if err != nil {
		unix.Close(fd)
		return nil, -1, err
	}
	return r, fd, nil
}

func sizeMemory(id nixl.RegionID, info nixl.RegionInfo, fd int) (*region.Region, error) {
	if err := unix.Ftruncate(fd, int64(info.Bytes())); err != nil {
		return nil, fmt.Errorf("size the memory file: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal the memory file: %w", err)
	}
	return region.Shared(id, info, fd)
}

// openMemory maps the regions that a peer passed and closes the descriptors. It
// takes none that could change its size.
func openMemory(infos []nixl.RegionInfo, fds []int) (regions []*region.Region, err error) {
	defer func() {
		closeFDs(fds)
		if err != nil {
			closeAll(regions)
		}
	}()
	if len(fds) != len(infos) {
		return nil, fmt.Errorf("the peer passed %d descriptors for %d regions", len(fds), len(infos))
	}
	for i, fd := range fds {
		if err := checkMemory(fd, infos[i]); err != nil {
			return regions, fmt.Errorf("the peer's region %d: %w", i, err)
		}
		r, err := region.Shared(nixl.RegionID(i), infos[i], fd)
		if err != nil {
			return regions, fmt.Errorf("map the peer's region %d: %w", i, err)
		}
		regions = append(regions, r)
	}
	return regions, nil
}

func checkMemory(fd int, info nixl.RegionInfo) error {
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
	if stat.Size != int64(info.Bytes()) {
		return fmt.Errorf("its file has %d bytes, want %d", stat.Size, info.Bytes())
	}
	return nil
}

// closeAll unmaps. An address that was mapped once cannot fail to be unmapped.
func closeAll(regions []*region.Region) {
	for _, r := range regions {
		_ = r.Close()
	}
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
