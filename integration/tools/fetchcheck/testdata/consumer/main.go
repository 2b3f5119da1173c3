// A program that uses every package of the published modules, as a program outside this repository
// would.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/redis/rueidis"
	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/fallback"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/otellimit"
	"github.com/rratelimiter/rratelimiter/rules"
	"github.com/rratelimiter/rratelimiter/rules/grpcrules"
	"github.com/rratelimiter/rratelimiter/rules/rls"
	"google.golang.org/grpc"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{os.Getenv("REDIS")}})
	if err != nil {
		return err
	}
	defer redis.Close()
	telemetry, err := otellimit.New()
	if err != nil {
		return err
	}
	client := rratelimiter.New(redis, rratelimiter.WithObserver(telemetry.Observer()))
	set, err := rules.Parse("rules.yaml", []byte("domain: shop\n"))
	if err != nil {
		return err
	}
	perMinute := limit.FixedWindow{Permits: 60, Interval: time.Minute}
	if _, _, err := fallback.New(limit.New(client, "jobs", perMinute)).TryAcquire(ctx, 1); err != nil {
		return err
	}
	limited := httplimit.Middleware(httplimit.Each(client, "web", httplimit.ByIP(), perMinute))
	http.Handle("/", limited(set.Middleware(client)(http.NotFoundHandler())))
	grpc.NewServer(grpc.UnaryInterceptor(
		grpclimit.UnaryServerInterceptor(grpclimit.All(limit.New(client, "rpc", perMinute)),
			grpclimit.Report(otellimit.GRPC[grpclimit.Call](telemetry.Middleware("grpc"))))),
		grpc.StreamInterceptor(grpcrules.StreamServerInterceptor(set, client)))
	return rls.Serve(ctx, rls.Config{Client: client, Path: "limits"})
}
