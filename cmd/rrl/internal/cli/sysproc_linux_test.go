package cli

import "syscall"

// sysProcAttr ends a server with the test that started it, however that ends.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
