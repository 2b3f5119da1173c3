package main

import (
	"runtime"
	"syscall"
	"time"
)

// preciseSleep gives a way to sleep that is late by microseconds. time.Sleep is late by up to a
// millisecond where nothing else runs, since Go waits for the network in whole milliseconds. It
// binds the goroutine to its thread.
func preciseSleep() func(time.Duration) {
	runtime.LockOSThread()
	// Without it the kernel may add 50 microseconds.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_TIMERSLACK, 1, 0)
	return func(d time.Duration) {
		if d > 0 {
			wait := syscall.NsecToTimespec(d.Nanoseconds())
			// What interrupts it early makes a byte come early, which is no harm.
			_ = syscall.Nanosleep(&wait, nil)
		}
	}
}
