package rls

import (
	"cmp"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// The bounds of the HTTP side of Serve. Requests are small and answers are quick, so that a slow
// client is a fault or an attack.
const (
	readTime   = 5 * time.Second  // for a request, its body included
	writeTime  = 30 * time.Second // for a response, in addition to Config.Deadline
	idleTime   = 2 * time.Minute  // between requests
	mostHeader = 64 << 10         // bytes
	mostConns  = 1024             // without Config.HTTPConns
)

// httpServer returns the HTTP side of Serve, and the listener that it serves: beyond
// Config.HTTPConns connections wait. If that many are open, idle ones are closed, and each answer
// ends its connection until half of them are gone.
func (s *Server) httpServer(l net.Listener) (*http.Server, net.Listener) {
	most := cmp.Or(s.config.HTTPConns, mostConns)
	server := &http.Server{
		Handler: s.Handler(), ReadTimeout: readTime, WriteTimeout: writeTime + s.config.Deadline, IdleTimeout: idleTime,
		MaxHeaderBytes: mostHeader,
	}
	var mu sync.Mutex
	open := 0
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch state {
		case http.StateNew:
			if open++; open == most {
				server.SetKeepAlivesEnabled(false) // closes idle connections
			}
		case http.StateClosed, http.StateHijacked:
			if open--; open == most/2 {
				server.SetKeepAlivesEnabled(true)
			}
		}
	}
	return server, netutil.LimitListener(l, most)
}
