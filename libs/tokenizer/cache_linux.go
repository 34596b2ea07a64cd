package tokenizer

import (
	"fmt"
	"os"
	"syscall"
)

// changed tells files apart whose size and time of modification are the same.
func changed(info os.FileInfo) string {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(s.Dev, s.Ino, s.Ctim)
	}
	return ""
}
