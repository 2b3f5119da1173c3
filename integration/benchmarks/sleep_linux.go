package main

import (
	"runtime"
	"syscall"
	"time"
)

// preciseSleep returns a sleep function that is late by microseconds. time.Sleep is late by up to a
// millisecond if nothing else runs, since Go waits for the network in whole milliseconds. It binds
// the goroutine to its thread.
func preciseSleep() func(time.Duration) {
	runtime.LockOSThread()
	// Without it the kernel may add 50 microseconds.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_TIMERSLACK, 1, 0)
	return func(d time.Duration) {
		if d > 0 {
			wait := syscall.NsecToTimespec(d.Nanoseconds())
			// An interruption makes a byte arrive early, which does no harm.
			_ = syscall.Nanosleep(&wait, nil)
		}
	}
}
