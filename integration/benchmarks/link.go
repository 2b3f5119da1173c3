package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// oneWay is how long a byte takes over the slow link: half of its round trip.
const oneWay = time.Millisecond

// ping is how long a lone PING takes over the link, the median of some.
func (b *bench) ping(ctx context.Context) (time.Duration, error) {
	redis, err := dial(b.link.addr)
	if err != nil {
		return 0, err
	}
	defer redis.Close()
	var took histogram
	for range 50 {
		start := time.Now()
		if err := redis.Do(ctx, redis.B().Ping().Build()).Error(); err != nil {
			return 0, err
		}
		took.add(time.Since(start))
	}
	return took.quantile(0.5), nil
}

// serveLink is the link's process. It ends with its standard input.
func serveLink(target string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			go pass(client, server)
			go pass(server, client)
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// parcel is the bytes of one read.
type parcel struct {
	due  time.Time
	data []byte
}

// pass forwards the bytes from one end, each oneWay later.
func pass(from, to net.Conn) {
	parcels := make(chan parcel, 1024)
	go func() {
		defer close(parcels)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			if n > 0 {
				parcels <- parcel{time.Now().Add(oneWay), data[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	sleep := preciseSleep()
	for p := range parcels {
		sleep(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	// If one end closes, so does the other one; the reader above ends with its connection.
	_ = to.Close()
	_ = from.Close()
	for range parcels {
	}
}
