//go:build !linux

package servers

import "syscall"

// sysProcAttr gives a server its own process group. Elsewhere than on Linux a test process that is
// killed leaves its servers running.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
