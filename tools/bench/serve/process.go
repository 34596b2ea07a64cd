package serve

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// usageOf is what a process has used.
type usageOf struct {
	cpu      time.Duration // user and system, of all threads, also of those that ended
	rssBytes int64
}

// tick is Linux's unit of CPU time in /proc, on all architectures that Go has.
const tick = 10 * time.Millisecond

// readProcess reads /proc. An error names the process.
func readProcess(pid int) (usageOf, error) {
	if runtime.GOOS != "linux" {
		return usageOf{}, errors.New("pid is given, which wants Linux: CPU time is read from /proc")
	}
	var u usageOf
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return u, fmt.Errorf("pid is %d: there is no such process", pid)
	}
	if err == nil {
		u.cpu, err = parseStat(string(stat))
	}
	if err != nil {
		return u, fmt.Errorf("pid %d: %w", pid, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err == nil {
		u.rssBytes, err = parseStatus(string(status))
	}
	if err != nil {
		return u, fmt.Errorf("pid %d: %w", pid, err)
	}
	return u, nil
}

// parseStat adds up the fields utime and stime, 14 and 15 of proc_pid_stat(5).
func parseStat(text string) (time.Duration, error) {
	// The second field is the name in parentheses, which may hold blanks and parentheses.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat is %.100q, want its times in the fields 14 and 15", text)
	}
	user, errUser := strconv.ParseInt(fields[11], 10, 64)
	system, errSystem := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(errUser, errSystem); err != nil {
		return 0, fmt.Errorf("stat: %w", err)
	}
	return time.Duration(user+system) * tick, nil
}

// parseStatus finds the line VmRSS. A process that ended and was not waited for has none.
func parseStatus(text string) (int64, error) {
	_, rest, ok := strings.Cut(text, "\nVmRSS:")
	if !ok {
		return 0, errors.New("it has no memory: it ended")
	}
	line, _, _ := strings.Cut(rest, "\n")
	kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("status: VmRSS: %w", err)
	}
	return kb << 10, nil
}

// Process is what a process used in a run.
type Process struct {
	PID              int
	CPU              time.Duration
	RSSBegin, RSSEnd int64 // bytes
	Err              error // it could not be read at the end, so CPU and RSSEnd are unknown
}

// watch reads processes at the start of a run; the function it returns does at its end.
func watch(pids []int) (func() []Process, error) {
	before := make([]usageOf, len(pids))
	for i, pid := range pids {
		var err error
		if before[i], err = readProcess(pid); err != nil {
			return nil, err
		}
	}
	return func() []Process {
		list := make([]Process, len(pids))
		for i, pid := range pids {
			after, err := readProcess(pid)
			list[i] = Process{PID: pid, CPU: after.cpu - before[i].cpu, RSSBegin: before[i].rssBytes, RSSEnd: after.rssBytes, Err: err}
		}
		return list
	}, nil
}
