//go:build unix && !linux

package memory

func adviseHuge([]byte) {}
