package httplimit

// WithRandom sets the source of the random parts of Spread.
func WithRandom(random func(n int64) int64) Option {
	return option(func(s *settings) { s.Spread.Random = random })
}
