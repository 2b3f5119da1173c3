// Java-and-go uses the limiter "paid-api", which the Java program beside it uses too. It reads
// commands: take N, release N, rate N.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

const interval = 2 * time.Second

func main() {
	url := "redis://localhost:6379"
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	if err := run(context.Background(), url); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	redis, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	defer redis.Close()

	limiter := rratelimiter.New(redis).Limiter("paid-api",
		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 4, Interval: interval}))
	var command string
	var permits int64
	for {
		if _, err := fmt.Scan(&command, &permits); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("want a command and a number of permits: %w", err)
		}
		answer, err := execute(ctx, limiter, command, permits)
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
}

func execute(ctx context.Context, limiter *rratelimiter.Limiter, command string, permits int64) (string, error) {
	switch command {
	case "take":
		granted, err := limiter.TryAcquire(ctx, permits)
		if granted {
			return "granted", err
		}
		return "denied", err
	case "release":
		return "released", limiter.Release(ctx, permits)
	case "rate":
		rate := rratelimiter.Rate{Permits: permits, Interval: interval}
		_, err := limiter.UpdateRate(ctx, rate, rratelimiter.KeepState())
		return "set", err
	default:
		return "unknown command: take N, release N or rate N", nil
	}
}
