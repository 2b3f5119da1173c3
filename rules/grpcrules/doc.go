// Package grpcrules limits the calls to grpc-go servers by the rules of package rules. It is a package
// of its own, so that programs that use rules for HTTP alone do not depend on grpc-go.
//
//	set, err := rules.Watch(ctx, "/etc/shop/rules.yaml")
//	grpc.NewServer(grpc.UnaryInterceptor(grpcrules.UnaryServerInterceptor(set, client)),
//		grpc.StreamInterceptor(grpcrules.StreamServerInterceptor(set, client)))
//
// [rules.Matched] and [rules.Settle] work with the contexts of calls too.
package grpcrules
