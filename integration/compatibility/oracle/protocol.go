package oracle

import (
	"encoding/json"
	"strconv"
	"time"
)

// request is a line to the Java program: a call with its arguments, whose types select its form, or
// a load with the numbers below.
type request struct {
	ID        int64      `json:"id"`
	Redisson  int64      `json:"redisson"`
	Call      string     `json:"call"`
	Limiter   string     `json:"limiter,omitempty"`
	Args      []argument `json:"args,omitempty"`
	Config    string     `json:"config,omitempty"`    // of a new instance
	NameAfter bool       `json:"nameAfter,omitempty"` // the result is the name of the object after the call

	Permits        int64 `json:"permits,omitempty"`
	Millis         int64 `json:"millis,omitempty"`
	Threads        int   `json:"threads,omitempty"`
	Limiters       int   `json:"limiters,omitempty"`
	Async          bool  `json:"async,omitempty"`
	AcquireTimeout int64 `json:"acquireTimeoutMillis,omitempty"`
}

// argument is an argument of a call, with its type in Java.
type argument struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// unit is an argument for milliseconds, of a type in Java.
type unit string

// TimeUnit is the unit after a number of milliseconds.
const TimeUnit unit = "TimeUnit"

func argumentOf(value any) argument {
	switch v := value.(type) {
	case argument:
		return v
	case int64:
		return argument{"long", strconv.FormatInt(v, 10)}
	case time.Duration:
		return argument{"Duration", strconv.FormatInt(v.Milliseconds(), 10)}
	case time.Time:
		return argument{"Instant", strconv.FormatInt(v.UnixMilli(), 10)}
	case RateType:
		return argument{"RateType", string(v)}
	case unit:
		return argument{string(v), "MILLISECONDS"}
	default:
		return argument{"String", v.(string)}
	}
}

// answer is a line from the Java program: the result of a request.
type answer struct {
	ID          int64           `json:"id"`
	Result      json.RawMessage `json:"result"`
	Error       *string         `json:"error"`
	Class       string          `json:"class"`
	Unsupported *string         `json:"unsupported"`
}
