package memory

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Segments are the runs of bytes that Retire would replace for the touched ones: whole files.
func (m *Memory) Segments(touched []Range) []Range {
	var all []Range
	at := 0
	for _, f := range m.Files() {
		segment := Range{at, min(f.Bytes, m.size-at)}
		for _, r := range touched {
			if r.Offset < segment.Offset+segment.Bytes && segment.Offset < r.Offset+r.Bytes {
				all = append(all, segment)
				break
			}
		}
		at += f.Bytes
	}
	return all
}

// Retire replaces the files under the touched bytes by fresh ones at the same addresses,
// into which it copies the bytes to keep; all others read as zeroes. Whoever has mapped the
// old files can write into these for ever, and changes nothing here. The bytes to keep must
// not be written meanwhile.
func (m *Memory) Retire(touched, keep []Range) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.pinned:
		return fmt.Errorf("retire memory that is pinned: %w", errors.ErrUnsupported)
	case m.files == nil:
		return fmt.Errorf("retire memory that is not shared: %w", errors.ErrUnsupported)
	}
	m.epoch++ // first: who maps the files from here on may get some of either
	at := 0
	for i := range m.files {
		segment := Range{at, m.files[i].Bytes}
		if len(overlap(touched, segment)) > 0 {
			if err := m.replace(i, segment, overlap(keep, segment)); err != nil {
				return fmt.Errorf("retire memory: %w", err)
			}
		}
		at += segment.Bytes
	}
	return nil
}

// overlap cuts ranges to those parts that lie within one.
func overlap(ranges []Range, within Range) (parts []Range) {
	for _, r := range ranges {
		from, to := max(r.Offset, within.Offset), min(r.Offset+r.Bytes, within.Offset+within.Bytes)
		if from < to {
			parts = append(parts, Range{from, to - from})
		}
	}
	return parts
}

func (m *Memory) replace(i int, segment Range, keep []Range) error {
	fd, err := newFile(segment.Bytes)
	if err != nil {
		return err
	}
	fresh := File{fd, segment.Bytes}
	if err := copyInto(fresh, m.bytes, segment, keep); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	if err := mapAt(unsafe.Add(unsafe.Pointer(unsafe.SliceData(m.bytes)), segment.Offset), fresh); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	old := m.files[i].FD
	m.files[i] = fresh
	return unix.Close(old)
}

// copyInto copies what is to be kept before the file takes its place.
func copyInto(f File, bytes []byte, segment Range, keep []Range) error {
	if len(keep) == 0 {
		return nil
	}
	to, err := unix.Mmap(f.FD, 0, f.Bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map a memory file of %d bytes: %w", f.Bytes, err)
	}
	for _, r := range keep {
		n := min(r.Bytes, len(bytes)-r.Offset) // the last file is a whole page, the memory may end before
		copy(to[r.Offset-segment.Offset:], bytes[r.Offset:r.Offset+n])
	}
	return unix.Munmap(to)
}
