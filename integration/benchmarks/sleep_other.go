//go:build !linux

package main

import "time"

// preciseSleep is time.Sleep, which is precise on these systems.
func preciseSleep() func(time.Duration) { return time.Sleep }
