// Package linear records histories of concurrent calls of one limiter, and checks with porcupine
// that each history is linearizable: there is an order of the calls, each at one moment between its
// start and its end, in which a model of the limiter in plain Go gives every answer.
//
// A History collects the calls. Limiter is the model of Redisson's limiter, Strict that of one whose
// Clients lease permits, and Policy those of package limit.
package linear
