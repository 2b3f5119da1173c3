//go:build !linux

package cli

import "syscall"

func sysProcAttr() *syscall.SysProcAttr { return nil }
