package rls

import "net"

// HTTPServer is for tests of the HTTP side of Serve.
var HTTPServer = (*Server).httpServer

// Ending returns a listener whose silent connections are closed.
func Ending(l net.Listener) net.Listener {
	ending := &listener{Listener: l}
	ending.closeSilent()
	return ending
}
