package guard

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A gRPC server may run as a handler of net/http, behind a middleware of httplimit.
func TestVisitOf_OtherProtocol_IsNone(t *testing.T) {
	v := NewVisit[HTTP](context.Background(), nil, Request{}, Answer{}, "an outcome")
	assert.Same(t, v, VisitOf[HTTP, string](v))
	assert.Nil(t, VisitOf[GRPC, string](v))
}
