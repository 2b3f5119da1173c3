package rls

import (
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// headersOf returns the headers that report limits to clients. They are of the status that is nearest
// to its limit, without shadows.
func (s *Server) headersOf(all []descriptor) []*core.HeaderValue {
	var statuses []*ratelimit.RateLimitResponse_DescriptorStatus
	var each []rratelimiter.Decision
	for i := range all {
		if one := all[i].status; one.GetCurrentLimit() != nil && !all[i].rule.ShadowMode {
			statuses = append(statuses, one)
			each = append(each, rratelimiter.Decision{
				Allowed:   one.GetCode() != ratelimit.RateLimitResponse_OVER_LIMIT,
				Remaining: int64(one.GetLimitRemaining()), RetryAfter: one.GetDurationUntilReset().AsDuration(),
			})
		}
	}
	if len(statuses) == 0 || s.config.Shadow {
		return nil
	}
	one := statuses[guard.Shown(each)]
	return []*core.HeaderValue{
		{Key: "RateLimit-Limit", Value: strconv.FormatUint(uint64(one.GetCurrentLimit().GetRequestsPerUnit()), 10)},
		{Key: "RateLimit-Remaining", Value: strconv.FormatUint(uint64(one.GetLimitRemaining()), 10)},
		{Key: "RateLimit-Reset", Value: strconv.FormatInt(one.GetDurationUntilReset().GetSeconds(), 10)},
	}
}

// metadataOf returns the metadata for Envoy's filters: the request, and the metadata of the
// descriptors that are within their limits.
func metadataOf(request *ratelimit.RateLimitRequest, all []descriptor) *structpb.Struct {
	descriptors := make([]any, len(all))
	admitted := make(map[string]any)
	for i, received := range request.GetDescriptors() {
		entries := []any{}
		for _, entry := range received.GetEntries() {
			entries = append(entries, entry.GetKey()+"="+entry.GetValue())
		}
		fields := map[string]any{"entries": entries}
		if own := received.GetLimit(); own != nil {
			fields["limit"] = own.String()
		}
		if hits := received.GetHitsAddend(); hits != nil {
			fields["hitsAddend"] = float64(hits.GetValue())
		}
		descriptors[i] = fields
		desc := &all[i]
		if len(desc.limits) > 0 && !desc.unlimited() && desc.status.GetCode() == ratelimit.RateLimitResponse_OK {
			mergeMetadata(admitted, desc.rule.Metadata)
		}
	}
	made := map[string]any{"domain": request.GetDomain(), "descriptors": descriptors}
	if hits := request.GetHitsAddend(); hits != 0 {
		made["hitsAddend"] = float64(hits)
	}
	if len(admitted) > 0 {
		made["metadata"] = admitted
	}
	metadata, _ := structpb.NewStruct(made) // nil if the request is not UTF-8, which gRPC rejects
	return metadata
}
