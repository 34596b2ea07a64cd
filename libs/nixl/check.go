package nixl

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// CheckCopies reports, as an ErrDescriptor, the first copy that does not lie within
// regions of the given sizes, has unequal lengths, or shares bytes with another copy
// on the side that op writes. Ascending copies are checked without sorting.
func CheckCopies(op Op, copies []Copy, localBytes, remoteBytes int) error {
	if op != Write && op != Read {
		return fmt.Errorf("operation %d is neither write nor read: %w", op, ErrDescriptor)
	}
	if err := CheckBounds(copies, localBytes, remoteBytes); err != nil {
		return err
	}
	return CheckOverlap(op, copies)
}

// CheckBounds is CheckCopies without the overlaps.
func CheckBounds(copies []Copy, localBytes, remoteBytes int) error {
	for i, c := range copies {
		if c.Local.Bytes != c.Remote.Bytes {
			return fmt.Errorf("copy %d: %d bytes local but %d remote: %w", i, c.Local.Bytes, c.Remote.Bytes, ErrDescriptor)
		}
		if !within(c.Local, localBytes) {
			return outside(i, "local", c.Local, localBytes)
		}
		if !within(c.Remote, remoteBytes) {
			return outside(i, "remote", c.Remote, remoteBytes)
		}
	}
	return nil
}

// within is written so that no sum can overflow.
func within(s block.Span, size int) bool {
	return s.Offset >= 0 && s.Bytes >= 0 && s.Offset <= size && s.Bytes <= size-s.Offset
}

func outside(i int, side string, s block.Span, size int) error {
	return fmt.Errorf("copy %d: %s offset %d, %d bytes, is outside the region of %d bytes: %w",
		i, side, s.Offset, s.Bytes, size, ErrDescriptor)
}

func destination(op Op, c Copy) block.Span {
	if op == Write {
		return c.Remote
	}
	return c.Local
}

// CheckOverlap reports, as an ErrDescriptor, two copies that share bytes on the side
// that op writes. The copies must lie within their regions.
func CheckOverlap(op Op, copies []Copy) error {
	if ascending(op, copies) {
		return nil
	}
	spans := make([]block.Span, 0, len(copies))
	for _, c := range copies {
		if d := destination(op, c); d.Bytes > 0 {
			spans = append(spans, d)
		}
	}
	slices.SortFunc(spans, func(a, b block.Span) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := 1; i < len(spans); i++ {
		if before := spans[i-1]; spans[i].Offset < before.Offset+before.Bytes {
			return fmt.Errorf("two copies %s offset %d: %w", op, spans[i].Offset, ErrDescriptor)
		}
	}
	return nil
}

// ascending tells whether each copy begins behind the one before it.
func ascending(op Op, copies []Copy) bool {
	end := 0
	for _, c := range copies {
		if d := destination(op, c); d.Bytes > 0 {
			if d.Offset < end {
				return false
			}
			end = d.Offset + d.Bytes
		}
	}
	return true
}
