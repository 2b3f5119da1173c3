package engine

import "time"

// Ask is what a caller wants.
type Ask struct {
	Permits int64
	Detail  bool          // all of Answer, not Allowed alone
	Each    bool          // Result.Parts as well
	Within  time.Duration // for a reservation: the longest delay
}

// Result is what came of it.
type Result struct {
	Answer
	Extra any // for a request with Each the []Answer of its parts, for a reservation what the Protocol makes of it
	From  Source
}

// Parts is what each part says, for a request with Each.
func (r Result) Parts() []Answer {
	parts, _ := r.Extra.([]Answer)
	return parts
}

// Request is one caller's wish for permits, and in the end its answer.
type Request struct {
	Permits int64
	Detail  bool // as in Ask, as is Each
	Each    bool
	state   requestState // guarded by the entry, as is batch
	From    Source
	Answer
	batch *Batch // that it gathers in; nil for those who wait in line

	Within time.Duration // as in Ask
	Extra  any           // as in Result
	Err    error
	call   *Call // that this caller is to tell of, or nil
}

type requestState uint8

const (
	queued    requestState = iota // not yet in a call
	inFlight                      // in a call that is under way
	answered                      // the result is final
	abandoned                     // the caller has gone: what arrives for it goes back
)

// result gives a request's answer to its caller.
func (r *Request) result() (Result, error) {
	return Result{r.Answer, r.Extra, r.From}, r.Err
}

// deliver makes a request's answer final, err being that of its call. It says whether permits came for a caller that has
// gone. The entry is locked.
func (r *Request) deliver(err error) (lost bool) {
	if r.state == abandoned {
		return err == nil && r.Allowed
	}
	if err != nil {
		r.Err = err
	}
	r.state = answered
	return false
}
