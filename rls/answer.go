package rls

import (
	"maps"
	"slices"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// closest returns the status that is nearest to its limit: one that is over, else the one with the fewest left. It
// returns nil if nothing but shadows limits the request.
func closest(all []asked) (found *ratelimit.RateLimitResponse_DescriptorStatus) {
	for i := range all {
		one := all[i].status
		if one.GetCurrentLimit() == nil || all[i].rule != nil && all[i].rule.shadow {
			continue
		}
		over := one.GetCode() == ratelimit.RateLimitResponse_OVER_LIMIT
		switch foundOver := found.GetCode() == ratelimit.RateLimitResponse_OVER_LIMIT; {
		case found == nil, over && !foundOver,
			over && one.GetDurationUntilReset().GetSeconds() > found.GetDurationUntilReset().GetSeconds(),
			over == foundOver && one.GetLimitRemaining() < found.GetLimitRemaining():
			found = one
		}
	}
	return found
}

// headersOf returns the headers that report limits to clients, but no shadows.
func (s *Server) headersOf(all []asked) []*core.HeaderValue {
	one := closest(all)
	if one == nil || s.config.Shadow {
		return nil
	}
	return []*core.HeaderValue{
		{Key: "RateLimit-Limit", Value: strconv.FormatUint(uint64(one.GetCurrentLimit().GetRequestsPerUnit()), 10)},
		{Key: "RateLimit-Remaining", Value: strconv.FormatUint(uint64(one.GetLimitRemaining()), 10)},
		{Key: "RateLimit-Reset", Value: strconv.FormatInt(one.GetDurationUntilReset().GetSeconds(), 10)},
	}
}

// metadataOf is what Envoy's filters can read: the request, and the metadata of the descriptors that were within their limits.
func metadataOf(request *ratelimit.RateLimitRequest, all []asked) *structpb.Struct {
	descriptors := make([]*structpb.Value, len(all))
	passed := new(structpb.Struct)
	for i, descriptor := range request.GetDescriptors() {
		told := make(map[string]*structpb.Value)
		var entries []*structpb.Value
		for _, entry := range descriptor.GetEntries() {
			entries = append(entries, structpb.NewStringValue(entry.GetKey()+"="+entry.GetValue()))
		}
		told["entries"] = structpb.NewListValue(&structpb.ListValue{Values: entries})
		if own := descriptor.GetLimit(); own != nil {
			told["limit"] = structpb.NewStringValue(own.String())
		}
		if hits := descriptor.GetHitsAddend(); hits != nil {
			told["hitsAddend"] = structpb.NewNumberValue(float64(hits.GetValue()))
		}
		descriptors[i] = structpb.NewStructValue(&structpb.Struct{Fields: told})
		a := &all[i]
		if a.rule != nil && len(a.limits) > 0 && !a.unlimited() && a.status.GetCode() == ratelimit.RateLimitResponse_OK {
			blend(passed, a.rule.metadata)
		}
	}
	made := map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(request.GetDomain()),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: descriptors}),
	}
	if hits := request.GetHitsAddend(); hits != 0 {
		made["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	if len(passed.GetFields()) > 0 {
		made["metadata"] = structpb.NewStructValue(passed)
	}
	return &structpb.Struct{Fields: made}
}

// blend adds to one struct what another has and it has not, down through structs that both have.
func blend(into, from *structpb.Struct) {
	for _, key := range slices.Sorted(maps.Keys(from.GetFields())) {
		value := from.GetFields()[key]
		there, ok := into.GetFields()[key]
		if !ok {
			if into.Fields == nil {
				into.Fields = make(map[string]*structpb.Value)
			}
			if inner := value.GetStructValue(); inner != nil {
				copied := new(structpb.Struct)
				blend(copied, inner) // so that what is added later leaves the rule's own alone
				value = structpb.NewStructValue(copied)
			}
			into.Fields[key] = value
			continue
		}
		if a, b := there.GetStructValue(), value.GetStructValue(); a != nil && b != nil {
			blend(a, b)
		}
	}
}
