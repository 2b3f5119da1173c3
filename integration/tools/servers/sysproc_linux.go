package servers

import "syscall"

// sysProcAttr gives a server its own process group, and ends it with the process that started it,
// however that ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
