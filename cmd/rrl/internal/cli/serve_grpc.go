package cli

import (
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// streamWorkers is the number of goroutines that serve streams. A further stream gets a new goroutine,
// whose stack has to grow first.
const streamWorkers = 256

// graceTime is for requests under way on a connection that has reached its maximum age.
const graceTime = 10 * time.Second

// grpcOptions returns the options of the gRPC server and a function that rereads the certificates.
func (s *service) grpcOptions(log *slog.Logger) (options []grpc.ServerOption, reload func(), err error) {
	options = []grpc.ServerOption{grpc.NumStreamWorkers(streamWorkers)}
	if s.age > 0 {
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: s.age, MaxConnectionAgeGrace: graceTime,
		}))
	}
	if s.certs.Cert == "" {
		return options, func() {}, nil
	}
	source, err := openCertificates(s.certs, log)
	if err != nil {
		return nil, nil, fmt.Errorf("--grpc-tls-cert, --grpc-tls-key, --grpc-tls-client-ca: %w", err)
	}
	return append(options, grpc.Creds(credentials.NewTLS(source.serverConfig()))), source.reload, nil
}
