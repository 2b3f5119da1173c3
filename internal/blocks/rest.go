package blocks

import "time"

// Rest gives a function that rests as long as was worked, so that a large file that is read holds up nothing else. On Linux a sleep takes
// a millisecond or more, which is several chunks of work: what one was too long counts for the next.
func Rest() func(worked time.Duration) {
	owed := time.Duration(0)
	return func(worked time.Duration) {
		owed += worked
		begin := time.Now()
		time.Sleep(owed)
		owed = max(owed-time.Since(begin), -time.Millisecond)
	}
}
