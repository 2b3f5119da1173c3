package rls

import (
	"context"
	"math"
	"sync"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

const (
	maxLimits = 256 // of one request, in Redis
	maxHits   = 1 << 53
)

// invalidf returns the error of an invalid request.
func invalidf(format string, values ...any) error {
	return status.Errorf(codes.InvalidArgument, "rls: "+format, values...)
}

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
		}
		if len(desc.limits) > 0 {
			s.metrics.count(d, desc)
			s.warnOfCharge(desc)
		}
		if desc.over && desc.rule.shadow {
			desc.status.Code = ratelimit.RateLimitResponse_OK
		}
		response.Statuses[i] = desc.status
		over := desc.status.GetCode() == ratelimit.RateLimitResponse_OVER_LIMIT
		if !desc.unlimited() && (s.config.Quota || len(desc.limits) > 0 && desc.rule.quota) {
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

// warnOfCharge logs a rule once if a request peeks at it, but the rule does not charge hits over
// the limit afterwards.
func (s *Server) warnOfCharge(desc *descriptor) {
	if desc.hits == 0 && desc.rule != noRule && !desc.rule.overdraw && !desc.unlimited() &&
		desc.rule.warned.CompareAndSwap(false, true) {
		s.config.Log.Warn("rls: a request has hits_addend 0: if it charges costs after the response, "+
			"set overdraw: true for the descriptor, or costs over the limit are not counted",
			"file", desc.rule.file, "line", desc.rule.line)
	}
}

// decideAll decides the limits of each descriptor, with calls to Redis.
func (s *Server) decideAll(ctx context.Context, d *domain, all []descriptor) error {
	var groups []*group
	limits := 0
	for i := range all {
		desc := &all[i]
		if len(desc.limits) == 0 || desc.decideLocally() {
			continue
		}
		if limits += len(desc.limits); limits > maxLimits {
			return invalidf("the descriptors have more than %d limits to evaluate", maxLimits)
		}
		desc.name = d.nameOf(desc)
		groups = place(groups, desc, s.slotOf(desc.name), desc.enforced(s.config.Quota) && !desc.rule.overdraw)
	}
	for i := range all {
		if desc := &all[i]; desc.over && desc.enforced(s.config.Quota) {
			onlyPeek(groups, s.slotOf(d.nameOf(desc)))
		}
	}
	return s.callAll(ctx, groups)
}

// onlyPeek makes the groups of a slot take no permits, since the request is denied in that slot
// without a call.
func onlyPeek(groups []*group, slot string) {
	for _, g := range groups {
		if g.joint && g.slot == slot {
			for _, desc := range g.members {
				desc.action = peek
			}
		}
	}
}

// slotOf returns the part of a limiter's name that selects its slot in a cluster, "" on a single
// Redis. One call can decide the limiters for which it is equal.
func (s *Server) slotOf(name string) string {
	if !s.cluster {
		return ""
	}
	return redisx.Tag(name)
}

// callAll decides all groups in parallel. Groups with a limiter of an earlier group follow, within
// the rest of the deadline.
func (s *Server) callAll(ctx context.Context, groups []*group) error {
	if len(groups) == 1 { // as for most requests
		return groups[0].call(ctx, s)
	}
	bounded, cancel := context.WithTimeout(ctx, s.config.Deadline)
	defer cancel()
	var calls sync.WaitGroup
	for _, g := range groups {
		if !g.follows {
			calls.Go(func() { g.err = g.call(ctx, s) })
		}
	}
	calls.Wait()
	for _, g := range groups {
		if g.follows {
			if g.err = g.call(bounded, s); status.Code(g.err) == codes.DeadlineExceeded && ctx.Err() == nil {
				g.err = s.failed(context.DeadlineExceeded)
			}
		}
		if g.err != nil {
			return g.err
		}
	}
	return nil
}

// setStatus sets a descriptor's status by the decision of a limit.
func (desc *descriptor) setStatus(one *rateLimit, decision rratelimiter.Decision) {
	result := &ratelimit.RateLimitResponse_DescriptorStatus{
		Code: ratelimit.RateLimitResponse_OK, CurrentLimit: one.current,
	}
	left := decision.ResetAfter
	if decision.Allowed {
		result.LimitRemaining = uint32(min(max(decision.Remaining, 0), math.MaxUint32))
	} else {
		result.Code, left = ratelimit.RateLimitResponse_OVER_LIMIT, decision.RetryAfter
	}
	if left <= 0 {
		left = one.reset(time.Now())
	}
	result.DurationUntilReset = &durationpb.Duration{Seconds: guard.RoundUp(left, time.Second)}
	desc.status, desc.over = result, !decision.Allowed
}

// conclude sets a descriptor's status by the decisions of its policies.
func (desc *descriptor) conclude(each []rratelimiter.Decision) {
	decisive := 0
	for i := range each {
		if desc.action == peek && desc.hits > 1 && !desc.limits[i].onCredit {
			each[i].Allowed = each[i].Remaining >= int64(desc.hits)
		}
		switch one, best := each[i], each[decisive]; {
		case one.Allowed != best.Allowed:
			if best.Allowed {
				decisive = i
			}
		case one.Allowed && one.Remaining < best.Remaining, !one.Allowed && one.RetryAfter > best.RetryAfter:
			decisive = i
		}
	}
	desc.setStatus(desc.limits[decisive], each[decisive])
}
