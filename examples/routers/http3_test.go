package routers

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/quic-go/quic-go/http3"
)

// quic-go serves any http.Handler by HTTP/3, and its client is an http.RoundTripper.
func Example_http3() {
	client := connect()

	// A certificate for localhost.
	borrowed := httptest.NewUnstartedServer(nil)
	borrowed.StartTLS()
	defer borrowed.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(borrowed.Certificate())

	server := &http3.Server{
		TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: borrowed.TLS.Certificates}),
		Handler: twoAnHour(client)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, "hello over", r.Proto)
		})),
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(conn) }() // until Close
	defer func() { server.Close(); conn.Close() }()

	transport := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "example.com"}}
	defer transport.Close()
	for range 3 {
		resp, err := (&http.Client{Transport: transport}).Get("https://" + conn.LocalAddr().String())
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Proto, resp.Status, resp.Header["Ratelimit-Policy"], resp.Header.Get("Retry-After") != "")
	}
	// Output:
	// HTTP/3.0 200 OK ["hour";q=2;w=3600] false
	// HTTP/3.0 200 OK ["hour";q=2;w=3600] false
	// HTTP/3.0 429 Too Many Requests ["hour";q=2;w=3600] true
}
