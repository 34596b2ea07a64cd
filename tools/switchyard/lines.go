package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLineBytes bounds a line of input.
const maxLineBytes = 256 << 20

// errLines is the error of a run in which lines were answered with errors.
var errLines = errors.New("some lines of the input were answered with an error")

// eachLine answers each line of JSON with one. A line that cannot be answered gets
// {"error": …}, and the next ones are answered all the same.
func eachLine(in io.Reader, out io.Writer, answer func(line []byte) (any, error)) error {
	lines := bufio.NewReaderSize(in, 1<<16)
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	failed := false
	for number := 1; ; number++ {
		line, err := readLine(lines)
		if err != nil && (err != io.EOF || len(line) == 0) {
			if err == io.EOF {
				err = nil
			}
			if failed && err == nil {
				err = errLines
			}
			return errors.Join(err, buffered.Flush())
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		result, err := answer(line)
		if err != nil {
			failed = true
			result = map[string]string{"error": err.Error()}
		}
		if err := encoder.Encode(result); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if lines.Buffered() == 0 { // whoever types line by line waits for the answer
			if err := buffered.Flush(); err != nil {
				return err
			}
		}
	}
}

func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); err != bufio.ErrBufferFull {
			return line, err
		}
		if len(line) > maxLineBytes {
			return nil, fmt.Errorf("a line has more than %d bytes", maxLineBytes)
		}
	}
}
