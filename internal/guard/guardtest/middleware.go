package guardtest

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Middleware is a package of middleware under test.
type Middleware struct {
	// Server returns a server whose handler the middleware limits.
	Server func(s Settings) Server
	// Client returns a client whose outgoing requests the middleware limits, and which upstream
	// answers.
	Client func(s Settings, upstream func() Reply) Client

	FromContext func(ctx context.Context) (limit.Outcome, bool)
	Settle      func(ctx context.Context, cost int64) error
	ErrNotSent  error

	// AddressKey returns the key of a client by its address. Each header is a name and a value
	// of one. It panics if a trusted network is invalid.
	AddressKey func(peer netip.AddrPort, a Address, headers [][2]string) (string, error)
}

// Server serves a request of a key.
type Server func(ctx context.Context, key string) Reply

// Client sends a request of a key.
type Client func(ctx context.Context, key string) (Reply, error)

// Reply is the answer to a request, as its client receives it.
type Reply struct {
	Status     int           // of HTTP: 200, 400, 429 or 503
	RetryAfter time.Duration // 0 for none
	Text       string        // everything else
}

// Settings are those that all middleware has. A zero field is not set.
type Settings struct {
	Client  *rratelimiter.Client
	Each    []limit.Policy    // of a limiter for each key, named "api:" and the key
	Initial rratelimiter.Rate // of a limiter in Redisson's layout for each key, named "api:" and the key
	Limiter limit.Joinable    // of all requests, where Each and Initial are not set
	Err     error             // of the choice of a limiter
	Handler func(ctx context.Context)

	Cost          func() int64
	Skip          func() bool
	Wait          time.Duration
	MaxWaiting    int
	Spread        time.Duration
	Random        func(n int64) int64 // of Spread
	Shadow        bool
	Mode          limit.FailureMode
	Deadline      time.Duration
	Report        func(limit.Outcome)
	OnRedisChange func(node string, up bool, err error)
	OnSettleError func(error)
}

// Address is the configuration of a client's address.
type Address struct {
	Trusted  []netip.Prefix
	Header   string
	IPv6Bits int
	IPv4Bits int
}

// The default settings of all middleware.
const (
	defaultDeadline   = 500 * time.Millisecond
	defaultMaxWaiting = 1000
)

// TestServer runs the contract of middleware in front of a handler.
func TestServer(t *testing.T, m Middleware) { run(t, m, serverWiring, serverRules) }

// TestServerWiring runs the part of the contract that the package of a protocol may break.
func TestServerWiring(t *testing.T, m Middleware) { run(t, m, serverWiring) }

// TestClient runs the contract of middleware for outgoing requests.
func TestClient(t *testing.T, m Middleware) { run(t, m, clientWiring, clientRules) }

// TestClientWiring is TestServerWiring for outgoing requests.
func TestClientWiring(t *testing.T, m Middleware) { run(t, m, clientWiring) }

func run(t *testing.T, m Middleware, parts ...map[string]func(*testing.T, Middleware)) {
	for _, part := range parts {
		for name, test := range part {
			t.Run(name, func(t *testing.T) { test(t, m) })
		}
	}
}

// serverWiring is the part of a server that the package of a protocol may break.
var serverWiring = map[string]func(*testing.T, Middleware){
	"NoLimiter_NilOfAnyType_PassesRequest":         testNoLimiter,
	"Choose_Fails_FollowsTheFailureMode":           testFailure,
	"InvalidRequest_AnyMode_IsRefusedWithoutRetry": testInvalid,
	"Cost_AboveRemaining_IsDenied":                 testCost,
	"EachRedisson_TwoKeys_AreIndependent":          testEachRedisson,
	"Wait_PermitsInTime_DelaysTheRequest":          testWait,
	"MaxWaiting_BoundReached_DeniesAtOnce":         testMaxWaiting,
	"Spread_Denied_DelaysTheRetry":                 testSpread,
	"Shadow_Denied_Passes":                         testShadow,
	"OnFailure_SlowRedis_DelaysUpToTheDeadline":    testSlowRedis,
	"Local_RegisteredPolicy_HasNameAndShare":       testRegisteredPolicy,
	"Settle_FinalCost_IsTaken":                     testSettle,
	"Settle_ClientGoneOrHandlerPanics_IsApplied":   testSettleAfterTheEnd,
	"Settle_Outage_IsReportedAtTheDeadline":        testSettleInAnOutage,
	"InFlight_RequestEnds_ReturnsThePlace":         testPlaces,
	"InFlight_NoPlaceFree_ReturnsBeforeTheEnd":     testPlaceBeforeTheEnd,
	"InFlight_CallbackPanics_ReturnsThePlace":      testPlaceAfterPanic,
	"Settings_Invalid_Panics":                      testInvalidSettings,
	"Wait_ContextEnds_IsDeniedWithRetry":           testWaitIsCutShort,
	"Address_UntrustedPeer_HeaderIsIgnored":        testAddress,
	"Address_Bits_ChooseTheNetwork":                testIPBits,
}

// serverRules is the part of a server that package gate alone decides.
var serverRules = map[string]func(*testing.T, Middleware){
	"EachRedisson_RateIsGone_BeginsAgain":       testRateIsGone,
	"EachRedisson_RateOfJava_Counts":            testRateOfJava,
	"Spread_ManyDenied_RetryAtDifferentTimes":   testSpreadOfMany,
	"Local_SeveralPolicies_ReportsShare":        testShare,
	"Local_UnknownPoliciesOrTooSmall_IsClosed":  testNoShare,
	"Settle_LaterWindow_RefundsNothing":         testSettleInALaterWindow,
	"Settle_ImpossibleCost_Fails":               testSettleFails,
	"Settle_LocalShare_IsCharged":               testSettleShare,
	"InFlight_LeaseEnds_ReturnsNothingOfOthers": testPlaceOfALongRequest,
	"InFlight_ManyRequests_NoMoreThanPlacesRun": testManyOnPlaces,
	"InFlight_WaitBelowTheGuess_IsServed":       testWaitForAPlace,
	"InFlight_Outage_ShareIsHeld":               testShareOfPlaces,
	"InFlight_Outage_ReturnIsRepeated":          testPlaceInAnOutage,
	"InFlight_Renew_HoldsForTheRequest":         testRenewedPlace,
	"InFlight_ShortOutage_PlacesReturnAfterIt":  testPlaceAfterAnOutage,
	"OnFailure_Mistake_LetsNoRequestPass":       testMistake,
	"OnFailure_NeverGranted_IsDeniedInAnOutage": testMistakeInAnOutage,
}

// clientWiring is the part of a client that the package of a protocol may break.
var clientWiring = map[string]func(*testing.T, Middleware){
	"Wait_NoPermitsInTime_FailsAtOnce":          testNotSent,
	"MaxWaiting_BoundReached_DoesNotSend":       testMaxWaitingToSend,
	"OnFailure_SlowRedis_FollowsTheMode":        testSendInAnOutage,
	"Shadow_Denied_SendsAtOnce":                 testSendInShadow,
	"RetryAfter_ServerDenies_PausesTheKey":      testPause,
	"RetryAfter_OwnMiddleware_FirstRetryPasses": testFirstRetry,
	"InFlight_RequestEnds_ReturnsThePlace":      testPlacesOfAClient,
}

// clientRules is the part of a client that package gate alone decides.
var clientRules = map[string]func(*testing.T, Middleware){
	"Wait_SeveralRequests_AreSentInOrder":       testSentInOrder,
	"RetryAfter_RequestWaits_AppliesToIt":       testPauseWhileWaiting,
	"RetryAfter_LimiterWithPause_PausesAll":     testPauseOfAll,
	"RetryAfter_PauseEndedInRedis_RequestsGoOn": testPauseEnds,
	"RetryAfter_RedisFails_PausesAlone":         testPauseInAnOutage,
}

// hour returns a window of an hour.
func hour(permits int64) []limit.Policy {
	return []limit.Policy{limit.FixedWindow{Permits: permits, Interval: time.Hour}}
}

// Known is a limiter that embeds another one, and states its policies.
type Known struct {
	limit.Joinable
	Of []limit.Policy
}

// Policies returns them.
func (k Known) Policies() []limit.Policy { return k.Of }

// get sends a request of the key "one".
func (s Server) get(f *redistest.Fixture) Reply { return s(f.Context(), "one") }

// send sends a request of a key, with a timeout.
func (c Client) send(f *redistest.Fixture, key string, within time.Duration) (Reply, error) {
	ctx, cancel := context.WithTimeout(f.Context(), within)
	defer cancel()
	return c(ctx, key)
}
