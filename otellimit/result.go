package otellimit

// result is an index of results, the values of rratelimiter.result.
type result int

const (
	noResult result = iota
	acquired
	rejected
	gaveUp
	charged
	failed
	shadowed
	failedOpen
	failedClosed
	invalid
	succeeded
	unknown
	resultCount
)

var results = [resultCount]string{
	acquired:     "acquired",
	rejected:     "rejected",
	gaveUp:       "canceled",
	charged:      "charged",
	failed:       "failed",
	shadowed:     "shadowed",
	failedOpen:   "failed_open",
	failedClosed: "failed_closed",
	invalid:      "invalid",
	succeeded:    "succeeded",
	unknown:      otherValue,
}
