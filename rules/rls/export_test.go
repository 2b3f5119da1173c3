package rls

// HTTPServer is for tests of the HTTP side of Serve.
var HTTPServer = (*Server).httpServer
