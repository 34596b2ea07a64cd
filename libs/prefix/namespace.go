package prefix

import "encoding/binary"

// SplitNamespace undoes Namespace; ok is false for a string that is not of its making.
func SplitNamespace(namespace string) (model, lora, salt string, ok bool) {
	const header = 2 * parentBytes
	if len(namespace) < header {
		return "", "", "", false
	}
	m, l := binary.LittleEndian.Uint64([]byte(namespace)), binary.LittleEndian.Uint64([]byte(namespace[parentBytes:]))
	rest := namespace[header:]
	if m > uint64(len(rest)) || l > uint64(len(rest))-m {
		return "", "", "", false
	}
	return rest[:m], rest[m : m+l], rest[m+l:], true
}
