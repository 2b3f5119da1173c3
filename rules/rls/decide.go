package rls

import (
	"context"
	"math"
	"slices"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// decide decides a request by the rules of its domain.
func (s *Server) decide(ctx context.Context, d *domain,
	request *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, []descriptor, error) {
	if request.GetDomain() == "" {
		return nil, nil, invalidf("the request has no domain")
	}
	if len(request.GetDescriptors()) == 0 {
		return nil, nil, invalidf("the request has no descriptors")
	}
	all := make([]descriptor, len(request.GetDescriptors()))
	if d == nil {
		s.metrics.domainNotFound.Inc()
	} else if err := d.resolve(request, all); err != nil {
		return nil, nil, err
	}
	if err := s.decideAll(ctx, d, all); err != nil {
		return nil, nil, err
	}
	response := &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK,
		Statuses: make([]*ratelimit.RateLimitResponse_DescriptorStatus, len(all))}
	quotas, failedQuotas := 0, 0
	for i := range all {
		desc := &all[i]
		if desc.status == nil {
			desc.status = &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK}
		} else if len(desc.limits) > 0 {
			s.metrics.count(d, desc)
		}
		if desc.over && desc.rule.ShadowMode {
			desc.status.Code = ratelimit.RateLimitResponse_OK
		}
		response.Statuses[i] = desc.status
		over := desc.status.GetCode() == ratelimit.RateLimitResponse_OVER_LIMIT
		if !desc.unlimited() && (s.config.Quota || len(desc.limits) > 0 && desc.rule.QuotaMode) {
			if quotas++; over {
				failedQuotas++
			}
		} else if over {
			response.OverallCode = ratelimit.RateLimitResponse_OVER_LIMIT
		}
	}
	if quotas > 0 && quotas == failedQuotas {
		response.OverallCode = ratelimit.RateLimitResponse_OVER_LIMIT
	}
	if s.config.Shadow && response.GetOverallCode() == ratelimit.RateLimitResponse_OVER_LIMIT {
		response.OverallCode = ratelimit.RateLimitResponse_OK
		s.metrics.globalShadow.Inc()
	}
	return response, all, nil
}

// decideAll decides the limits of each descriptor, with calls to Redis.
func (s *Server) decideAll(ctx context.Context, d *domain, all []descriptor) error {
	var lanes []*lane
	limits := 0
	for _, desc := range s.distinct(d, all) {
		if desc.decideLocally() {
			continue
		}
		if limits += len(desc.limits); limits > maxLimits {
			return invalidf("the descriptors have more than %d limits to evaluate", maxLimits)
		}
		desc.member = desc.open(s.config.Client)
		lanes = assign(lanes, desc, s.slotOf(desc.name))
	}
	for i := range all {
		if desc := &all[i]; desc.over && desc.enforced(s.config.Quota) {
			onlyPeek(lanes, s.slotOf(desc.name))
		}
	}
	return s.callAll(ctx, lanes)
}

// distinct returns the descriptors that have limits. Those that are equal to an earlier one are
// added to that.
func (s *Server) distinct(d *domain, all []descriptor) (found []*descriptor) {
	for i := range all {
		desc := &all[i]
		switch {
		case len(desc.limits) == 0:
			continue
		case desc.unlimited():
			desc.status = &ratelimit.RateLimitResponse_DescriptorStatus{
				Code: ratelimit.RateLimitResponse_OK, LimitRemaining: math.MaxUint32,
			}
			continue
		}
		desc.name, desc.cost = d.nameOf(desc), desc.hits
		desc.joint = desc.enforced(s.config.Quota) && (desc.action == peek || !desc.rule.Overdraw)
		if at := slices.IndexFunc(found, desc.isEqual); at >= 0 {
			found[at].add(desc)
		} else {
			found = append(found, desc)
		}
	}
	return found
}

// onlyPeek makes the groups of a slot take no permits, since the request is denied in that slot
// without a call.
func onlyPeek(lanes []*lane, slot string) {
	for _, l := range lanes {
		if !l.joint || l.slot != slot {
			continue
		}
		for _, g := range l.groups {
			for _, desc := range g.members {
				for ; desc != nil; desc = desc.equal {
					desc.action = peek
				}
			}
		}
	}
}

// slotOf returns the part of a limiter's name that selects its slot in a cluster, "" on a single
// Redis. One call can decide the limiters for which it is equal.
func (s *Server) slotOf(name string) string {
	if !s.engine.Cluster() {
		return ""
	}
	return redisx.Tag(name)
}

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
	one := statuses[outage.MostRestrictive(each)]
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

// mergeMetadata adds the fields that a mapping lacks, at any depth.
func mergeMetadata(into, from map[string]any) {
	for key, value := range from {
		inner, isMapping := value.(map[string]any)
		existing, exists := into[key]
		if isMapping && !exists {
			existing = make(map[string]any) // a copy, since later additions must not change the rule
			into[key] = existing
		}
		if outer, ok := existing.(map[string]any); ok && isMapping {
			mergeMetadata(outer, inner)
		} else if !exists {
			into[key] = value
		}
	}
}
