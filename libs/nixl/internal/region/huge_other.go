//go:build unix && !linux

package region

func adviseHuge([]byte) {}
