package rls

import (
	"maps"
	"slices"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// closest returns the status that is nearest to its limit: one that is over, else the one with the
// fewest permits left. It returns nil if only shadows limit the request.
func closest(all []evaluation) (found *ratelimit.RateLimitResponse_DescriptorStatus) {
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

// headersOf returns the headers that report limits to clients, without shadows.
func (s *Server) headersOf(all []evaluation) []*core.HeaderValue {
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

// metadataOf returns the metadata for Envoy's filters: the request, and the metadata of the
// descriptors that are within their limits.
func metadataOf(request *ratelimit.RateLimitRequest, all []evaluation) *structpb.Struct {
	descriptors := make([]*structpb.Value, len(all))
	passed := new(structpb.Struct)
	for i, descriptor := range request.GetDescriptors() {
		fields := make(map[string]*structpb.Value)
		var entries []*structpb.Value
		for _, entry := range descriptor.GetEntries() {
			entries = append(entries, structpb.NewStringValue(entry.GetKey()+"="+entry.GetValue()))
		}
		fields["entries"] = structpb.NewListValue(&structpb.ListValue{Values: entries})
		if own := descriptor.GetLimit(); own != nil {
			fields["limit"] = structpb.NewStringValue(own.String())
		}
		if hits := descriptor.GetHitsAddend(); hits != nil {
			fields["hitsAddend"] = structpb.NewNumberValue(float64(hits.GetValue()))
		}
		descriptors[i] = structpb.NewStructValue(&structpb.Struct{Fields: fields})
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

// blend adds the fields of one struct to another one that lacks them. It descends into structs that
// both have.
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
				blend(copied, inner) // a copy, since later additions must not change the rule's own
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
