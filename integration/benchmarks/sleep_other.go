//go:build !linux

package main

import "time"

// preciseSleep is time.Sleep where that is precise.
func preciseSleep() func(time.Duration) { return time.Sleep }
