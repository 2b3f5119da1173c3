// Package linear records histories of concurrent calls of one limiter, and checks with porcupine
// that each history is linearizable. That means: there is an order of the calls, each at one moment
// between its start and its end, in which a model of the limiter gives every answer. The models are
// plain Go.
//
// A History collects the calls. Limiter is the model of Redisson's limiter, Prefetched that of one whose
// Clients prefetch permits, and Policies that of a limiter of package limit.
package linear
