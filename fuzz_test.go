package rratelimiter

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Bad input of every kind that reaches the limiter from outside: names, members and configurations that somebody
// else wrote, replies of a server that is none, and options of a caller who did not read the documentation.

// tag is the hash tag of a key by the words of the Redis Cluster specification.
var tag = regexp.MustCompile(`(?s)^[^{]*\{([^}]+)\}`)

// slotBySpecification is CRC-16/XMODEM bit by bit, with the tag found by a regular expression: all that slot does not do.
func slotBySpecification(key string) int {
	if found := tag.FindStringSubmatch(key); found != nil {
		key = found[1]
	}
	remainder := 0
	for _, b := range append([]byte(key), 0, 0) {
		for bit := 7; bit >= 0; bit-- {
			remainder = remainder<<1 | int(b>>bit)&1
			if remainder > 0xffff {
				remainder ^= 0x11021
			}
		}
	}
	return remainder % 16384
}

func FuzzNames(f *testing.F) {
	for _, name := range []string{"", "a", "api:login", "{tenant7}:second", "a}b", "a{b", "{}a", "a{}{b}", "{a}{b}", "{{a}}", "}{", "\x00", "\xff{\xfe}", "日本{語}"} {
		f.Add(name, "api:login")
		f.Add(name, "{tenant7}:minute")
	}
	id := uuid.MustParse("0198f1a2-7c3d-7e4f-8a5b-6c7d8e9fa0b1")
	// A client with nothing behind it panics where it is asked anything.
	f.Fuzz(func(t *testing.T, name, other string) {
		single := New(withMode{mode: rueidis.ClientModeStandalone}, WithClientID(id))
		cluster := New(withMode{mode: rueidis.ClientModeCluster}, WithClientID(id))
		l := single.Limiter(name)
		require.Equal(t, name, l.Name())
		if name == "" {
			require.ErrorIs(t, l.err, ErrInvalidName)
			require.ErrorIs(t, cluster.Limiter(name).err, ErrInvalidName)
			return
		}
		require.NoError(t, l.err)

		prefix := "{" + name + "}"
		if strings.ContainsRune(name, '{') {
			prefix = name
		}
		want := keys{name, prefix + ":value", prefix + ":permits", prefix + ":value:" + id.String(), prefix + ":permits:" + id.String()}
		require.Equal(t, want, l.wire.keys)

		slots := make([]int, len(want))
		for i, key := range want {
			slots[i] = slotBySpecification(key)
			require.Equal(t, slots[i], int(redisx.Slot(key)), "slot of %q", key)
		}
		err := cluster.Limiter(name).err
		if slices.Max(slots) == slices.Min(slots) {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrCrossSlot)
			require.ErrorContains(t, err, fmt.Sprintf("slot %d", slots[0]))
			require.True(t, strings.ContainsAny(name, "{}"), "a name without braces has one slot")
		}

		if other == "" || err != nil || cluster.Limiter(other).err != nil || slotBySpecification(other) == slots[0] {
			return
		}
		require.ErrorIs(t, cluster.Limiter(name).Rename(t.Context(), other), ErrCrossSlot)
		_, err = cluster.Limiter(name).Copy(t.Context(), other, Replace())
		require.ErrorIs(t, err, ErrCrossSlot)
	})
}

// fuzzEpoch is the moment at which the clocks of the fuzzed limiters begin.
var fuzzEpoch = time.UnixMilli(1_700_000_000_000)

// fuzzServer is an in-memory Redis and a client of it, for all inputs of one target.
func fuzzServer(f *testing.F) (*miniredis.Miniredis, rueidis.Client) {
	server := miniredis.RunT(f)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(f, err)
	f.Cleanup(client.Close)
	return server, client
}

func FuzzMembers(f *testing.F) {
	f.Add([]byte{}, int64(1))
	f.Add([]byte{1, 2, 3}, int64(100))
	f.Add([]byte{0, 0, 0, 1}, int64(1<<32-1))
	f.Add([]byte("\x08random..\x05\x00\x00\x00"), int64(1<<32))
	f.Add([]byte("\x10random..random..\xff\xff\xff\xff"), int64(1<<53))
	f.Add([]byte("\x00\x00\x80\x3f\x07\x00\x00\x00"), int64(7))
	server, client := fuzzServer(f)
	f.Fuzz(func(t *testing.T, found []byte, permits int64) {
		made := new(Client).appendMember([]byte("before"), permits, false)
		require.Equal(t, "before\x10", string(made[:7]))
		require.Len(t, made, 6+1+16+4)
		require.Equal(t, uint32(permits), binary.LittleEndian.Uint32(made[23:]))
		require.NotEqual(t, made, new(Client).appendMember([]byte("before"), permits, false), "two grants never share a member")

		// What somebody else left in the set: another release of Redisson, or nobody who knows what a member is.
		const rate = 1 << 40
		server.FlushAll()
		now := fuzzEpoch
		l := New(client, WithClock(func() time.Time { return now })).Limiter("m")
		require.NoError(t, l.SetRate(t.Context(), Rate{Permits: rate, Interval: time.Second}))
		_, err := server.ZAdd(l.wire.keys[permitsKey], float64(now.UnixMilli()), string(found))
		require.NoError(t, err)

		// The value is lost, so that the member alone says what is taken.
		if len(found) < 4 {
			want := &StateError{Key: l.wire.keys[permitsKey], Field: "member", Value: string(found)}
			var state *StateError
			_, err = l.AvailablePermits(t.Context())
			require.ErrorAs(t, err, &state)
			require.Equal(t, want, state)
			_, err = l.TryAcquire(t.Context(), 1)
			require.ErrorAs(t, err, &state)
			require.Equal(t, want, state)
			require.Equal(t, []string{l.wire.keys[configKey], l.wire.keys[permitsKey]}, server.Keys(), "nothing was written")
		} else {
			taken := int64(binary.LittleEndian.Uint32(found[len(found)-4:]))
			free, err := l.AvailablePermits(t.Context())
			require.NoError(t, err)
			require.Equal(t, rate-taken, free)
			decision, err := l.Take(t.Context(), 1)
			require.NoError(t, err)
			require.Equal(t, Decision{Allowed: true, Limit: rate, Remaining: rate - taken - 1, ResetAfter: time.Second}, decision)
		}
		now = now.Add(time.Second)
		free, err := l.AvailablePermits(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, rate, free, "whatever it was, it has left the window")
		granted, err := l.TryAcquire(t.Context(), maxGrant)
		require.NoError(t, err)
		require.True(t, granted)
	})
}

// kind is the class of an error that a caller can tell apart; "other" is one that it cannot.
func kind(err error) string {
	var state *StateError
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &state):
		return "state"
	case errors.Is(err, ErrNotInitialized):
		return "not initialized"
	case errors.Is(err, ErrPermitsExceedRate):
		return "exceed"
	}
	return "other: " + err.Error()
}

// wholeNumber is what Redis itself takes for a number where it counts, up to a length that no rate has.
var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,15}|[1-9][0-9]{16})$`)

func FuzzConfigurations(f *testing.F) {
	f.Add("10", "1000", "0", "0", byte(0b1111), "5")
	f.Add("10", "1000", "1", "", byte(0b0111), "")
	f.Add("", "", "", "", byte(0), "")
	f.Add("0", "0", "0", "0", byte(0b1111), "5")
	f.Add("010", "01000", "01", "05000", byte(0b1111), "5")
	f.Add("9007199254740992", "9223372036854775807", "0", "9223372036854775807", byte(0b1111), "5")
	f.Add("9007199254740993", "9223372036854775808", "0", "999999999999999", byte(0b1111), "5")
	f.Add("1e3", "0x10", "0", "-1", byte(0b1111), "5")
	f.Add(" 10", "10\n", "0\x00", "inf", byte(0b1111), "5")
	f.Add("10.0", "nan", "2", "0", byte(0b1111), "5")
	f.Add("10", "1000", "0", "05000", byte(0b1111), "")
	for _, value := range []string{"0", "-0", "007", "-5", "+5", "11", "1e3", "99999999999999999999999", "-99999999999999999999999", " 5", "nan"} {
		f.Add("10", "1000", "0", "0", byte(0b1111), value)
	}
	server, client := fuzzServer(f)
	f.Fuzz(func(t *testing.T, rate, interval, rateType, keepAlive string, present byte, value string) {
		server.FlushAll()
		l := New(client, WithClock(func() time.Time { return fuzzEpoch })).Limiter("c")
		texts := map[string]string{}
		for i, field := range []string{"rate", "interval", "type", "keepAliveTime"} {
			text := []string{rate, interval, rateType, keepAlive}[i]
			// This server tells a script that an empty field is absent, and its Lua has no numbers above the largest int64. What a
			// real one makes of those is looked at in integration/corruption.
			_, err := strconv.ParseInt(text, 10, 64)
			if present>>i&1 == 1 && text != "" && !errors.Is(err, strconv.ErrRange) {
				texts[field] = text
				server.HSet("c", field, text)
			}
		}

		if value != "" {
			require.NoError(t, server.Set(l.wire.keys[valueKey], value))
			require.NoError(t, server.Set(l.wire.keys[clientValueKey], value))
			_, err := server.ZAdd(l.wire.keys[permitsKey], float64(fuzzEpoch.UnixMilli()), "\x00\x01\x00\x00\x00")
			require.NoError(t, err)
			_, err = server.ZAdd(l.wire.keys[clientPermitsKey], float64(fuzzEpoch.UnixMilli()), "\x00\x01\x00\x00\x00")
			require.NoError(t, err)
		}
		keysBefore := len(server.Keys())

		config, err := l.Config(t.Context())
		want := kind(err)
		if want == "none" && value != "" && !wholeNumber.MatchString(value) {
			key := l.wire.keys[map[RateType]int{Overall: valueKey, PerClient: clientValueKey}[config.Type]]
			_, err := l.AvailablePermits(t.Context())
			require.Equal(t, &StateError{Key: key, Value: value}, err)
			granted, err := l.TryAcquire(t.Context(), 1)
			require.Equal(t, &StateError{Key: key, Value: value}, err)
			require.False(t, granted)
			return
		}
		free, freeErr := l.AvailablePermits(t.Context())
		require.Equal(t, want, kind(freeErr), "Config says %v, AvailablePermits %v", err, freeErr)
		granted, takeErr := l.TryAcquire(t.Context(), 1)
		if want == "none" && config.Permits == 0 {
			require.ErrorIs(t, takeErr, ErrPermitsExceedRate)
		} else {
			require.Equal(t, want, kind(takeErr), "Config says %v, TryAcquire %v", err, takeErr)
		}
		for _, err := range []error{err, freeErr, takeErr} {
			var state *StateError
			if errors.As(err, &state) {
				require.Equal(t, StateError{Key: "c", Field: state.Field, Value: texts[state.Field]}, *state)
			}
		}
		switch want {
		case "none":
			require.LessOrEqual(t, free, config.Permits)
			require.GreaterOrEqual(t, free, int64(0))
			if free > 0 {
				require.True(t, granted)
			}
		case "not initialized":
			require.Less(t, len(texts), 4)
		case "state":
			require.False(t, granted)
			require.Len(t, server.Keys(), keysBefore, "nothing was taken")
			require.NoError(t, l.SetRate(t.Context(), Rate{Permits: 10, Interval: time.Second}), "SetRate repairs")
			granted, err := l.TryAcquire(t.Context(), 10)
			require.NoError(t, err)
			require.True(t, granted)
		default:
			require.Fail(t, "an error that a caller cannot tell apart", "%v", err)
		}
	})
}

// replies makes one well-formed RESP3 message out of any bytes: a server that answers what no script of ours does.
type replies struct{ source []byte }

func (r *replies) next() byte {
	if len(r.source) == 0 {
		return 0
	}
	b := r.source[0]
	r.source = r.source[1:]
	return b
}

func (r *replies) text() string {
	n := min(int(r.next()%32), len(r.source))
	text := string(r.source[:n])
	r.source = r.source[n:]
	return text
}

func (r *replies) number() int64 {
	switch b := r.next(); {
	case b < 200:
		return int64(b) - 4
	case b < 220:
		return 1<<62 + int64(b)
	case b < 240:
		return -1<<63 + int64(b)
	default:
		return int64(r.next())<<(b&31) - 1
	}
}

func (r *replies) message(depth int) string {
	switch choice := r.next() % 16; {
	case choice < 5:
		return fmt.Sprintf(":%d\r\n", r.number())
	case choice < 8:
		text := r.text()
		return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	case choice == 8:
		return "+" + strings.NewReplacer("\r", "", "\n", "").Replace(r.text()) + "\r\n"
	case choice == 9:
		return "-" + strings.NewReplacer("\r", "", "\n", "").Replace(r.text()) + "\r\n"
	case choice == 10:
		return "_\r\n"
	case choice == 11:
		return fmt.Sprintf(",%d.5\r\n", r.number())
	case choice == 12:
		return "#t\r\n"
	case depth > 2:
		return "$-1\r\n"
	}
	n := int(r.next() % 12)
	var all strings.Builder
	fmt.Fprintf(&all, "*%d\r\n", n)
	for range n {
		all.WriteString(r.message(depth + 1))
	}
	return all.String()
}

// oddServer answers every script and every read with the message that it was given, a few times, and then with an error: a script
// of ours does not say for ever that there is more to do.
type oddServer struct {
	message atomic.Pointer[string]
	left    atomic.Int32
}

func (s *oddServer) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go s.serve(theirs)
	return ours, nil
}

func (s *oddServer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		reply := "-ERR enough\r\n"
		switch words[0] {
		case "HELLO":
			reply = "%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n"
		case "CLIENT":
			reply = "+OK\r\n"
		case "PING":
			reply = "+PONG\r\n"
		default:
			if s.left.Add(-1) >= 0 {
				reply = *s.message.Load()
			}
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// readCommand reads one command as clients send it: an array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	count, err := readLength(in, '*')
	if err != nil {
		return nil, err
	}
	words := make([]string, count)
	for i := range words {
		length, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:length])
	}
	return words, nil
}

func readLength(in *bufio.Reader, mark byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != mark {
		return 0, fmt.Errorf("want %q, got %q", mark, line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte{0, 9})
	f.Add([]byte{})
	f.Add([]byte{13, 6, 0, 4, 0, 5, 0, 14, 0, 9, 0, 0, 5, 1, 'g'})
	f.Add([]byte{13, 8, 0, 4, 0, 5, 0, 14, 0, 9, 0, 0, 5, 1, 'n', 0, 9, 0, 9})
	f.Add([]byte{13, 2, 0, 5, 5, 1, 'x'})
	f.Add([]byte{13, 1, 0, 6})
	f.Add([]byte{13, 4, 0, 7, 0, 5, 5, 4, 'r', 'a', 't', 'e', 5, 1, 'x'})
	f.Add([]byte{13, 4, 0, 7, 0, 99, 5, 0, 5, 0})
	f.Add([]byte{9, 9, 'W', 'R', 'O', 'N', 'G', 'T', 'Y', 'P', 'E'})
	f.Add([]byte{13, 2, 0, 4, 0, 200})
	f.Add([]byte{0, 0})
	f.Add([]byte{0, 210})

	server := new(oddServer)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"nowhere"}, ForceSingleClient: true, DisableCache: true, DialCtxFn: server.dial, DisableRetry: true,
	})
	require.NoError(f, err)
	f.Cleanup(client.Close)
	l := New(client).Limiter("r")
	f.Fuzz(func(t *testing.T, source []byte) {
		message := (&replies{source}).message(0)
		server.message.Store(&message)
		answers := func(times int32) { server.left.Store(times) }

		for times := range int32(4) {
			answers(times)
			decision, err := l.Take(t.Context(), 3)
			if err != nil {
				require.Equal(t, Decision{}, decision)
			} else {
				require.GreaterOrEqual(t, decision.Remaining, int64(0))
			}
			requireTold(t, l, err)
		}
		for name, call := range map[string]func(context.Context) (any, error){
			"TryAcquire": func(ctx context.Context) (any, error) { return l.TryAcquire(ctx, 1) },
			"TryAcquireWithin": func(ctx context.Context) (any, error) {
				return l.TryAcquireWithin(ctx, 1, time.Millisecond)
			},
			"AvailablePermits": func(ctx context.Context) (any, error) { return l.AvailablePermits(ctx) },
			"Config":           func(ctx context.Context) (any, error) { return l.Config(ctx) },
			"TrySetRate": func(ctx context.Context) (any, error) {
				return l.TrySetRate(ctx, Rate{Permits: 1, Interval: time.Second})
			},
			"UpdateRate": func(ctx context.Context) (any, error) {
				return l.UpdateRate(ctx, Rate{Permits: 1, Interval: time.Second})
			},
			"Exists": func(ctx context.Context) (any, error) { return l.Exists(ctx) },
			"Delete": func(ctx context.Context) (any, error) { return l.Delete(ctx) },
			"Expire": func(ctx context.Context) (any, error) { return l.Expire(ctx, time.Second) },
			"RemainTimeToLive": func(ctx context.Context) (any, error) {
				left, err := l.RemainTimeToLive(ctx)
				var ms int64
				if n, _ := fmt.Sscanf(message, ":%d", &ms); n == 1 && ms >= 0 {
					require.Equal(t, millis(ms), left)
				}
				return left, err
			},
			"ExpireTime":   func(ctx context.Context) (any, error) { return l.ExpireTime(ctx) },
			"SizeInMemory": func(ctx context.Context) (any, error) { return l.SizeInMemory(ctx) },
			"RenameNX":     func(ctx context.Context) (any, error) { return l.RenameNX(ctx, "s") },
		} {
			answers(3)
			_, err := call(t.Context())
			if name == "TryAcquireWithin" && errors.Is(err, context.DeadlineExceeded) {
				continue // the machine is slow
			}
			require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			requireTold(t, l, err)
		}
		answers(3)
		requireTold(t, l, l.Release(t.Context(), 3))
		answers(3)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		requireTold(t, l, l.Acquire(ctx, 3))
	})
}

// requireTold demands that an error says which limiter it is about, and a StateError which of its keys.
func requireTold(t *testing.T, l *Limiter, err error) {
	t.Helper()
	var state *StateError
	switch {
	case err == nil, errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &state):
		require.Contains(t, l.wire.keys, state.Key)
	default:
		require.ErrorContains(t, err, strconv.Quote(l.Name()))
	}
}

func FuzzOptions(f *testing.F) {
	f.Add(0, int64(10), int64(time.Second), int64(0), int64(1), int64(time.Second), int64(0), byte(0), byte(0), false)
	f.Add(1, int64(1<<53), int64(1<<63-1)/1e6*1e6, int64(1<<63-1)/1e6*1e6, int64(1<<53), int64(-1), int64(1<<62), byte(1), byte(3), true)
	f.Add(2, int64(0), int64(0), int64(-1), int64(0), int64(-1<<63), int64(-1<<63), byte(2), byte(2), true)
	f.Add(-1, int64(-1), int64(1), int64(1), int64(1<<53+1), int64(1), int64(1<<63-1), byte(3), byte(4), true)
	f.Add(0, int64(5), int64(time.Second), int64(time.Millisecond), int64(6), int64(1<<63-1), int64(1e12), byte(5), byte(255), false)
	server, client := fuzzServer(f)
	f.Fuzz(func(t *testing.T, rateType int, ratePermits, interval, keepAlive, permits, duration, moment int64, first, second byte, keepState bool) {
		server.FlushAll()
		l := New(client, WithClock(func() time.Time { return fuzzEpoch })).Limiter("o")
		// call demands that what is refused is refused with the right error and costs Redis nothing.
		call := func(refusal error, what func() error) {
			t.Helper()
			before := server.CommandCount()
			err := what()
			if refusal != nil {
				require.ErrorIs(t, err, refusal)
				require.Equal(t, before, server.CommandCount(), "nothing is sent")
			} else {
				require.NoError(t, err)
			}
		}
		only := func(_ bool, err error) error { return err }
		ctx := t.Context()
		timeout := time.Duration(duration)
		if timeout > 0 {
			timeout = max(timeout, time.Minute) // a shorter one may be over before Redis was asked
		}

		rate := Rate{Type: RateType(rateType), Permits: ratePermits, Interval: time.Duration(interval), KeepAlive: time.Duration(keepAlive)}
		var badRate error
		if rateType < 0 || rateType > 1 || ratePermits < 1 || ratePermits > 1<<53 || interval < 1 || interval%1e6 != 0 ||
			keepAlive < 0 || keepAlive%1e6 != 0 || keepAlive != 0 && keepAlive < interval {
			badRate = ErrInvalidRate
		}
		var opts []SetRateOption
		if keepState {
			opts = []SetRateOption{nil, KeepState()}
		}
		call(badRate, func() error { return only(l.TrySetRate(ctx, rate)) })
		call(badRate, func() error { return only(l.UpdateRate(ctx, rate, opts...)) })
		call(badRate, func() error { return l.SetRate(ctx, rate, opts...) })
		if badRate != nil {
			rate = Rate{Permits: 1 << 53, Interval: time.Second}
			require.NoError(t, l.SetRate(ctx, rate))
		}
		kept, err := l.Config(ctx)
		require.NoError(t, err)
		require.Equal(t, rate, kept)

		switch {
		case permits < 1 || permits > maxGrant:
			call(ErrInvalidPermits, func() error { return only(l.TryAcquire(ctx, permits)) })
			call(ErrInvalidPermits, func() error { return only(l.TryAcquireWithin(ctx, permits, timeout)) })
			call(ErrInvalidPermits, func() error { return l.Acquire(ctx, permits) })
		case permits > rate.Permits:
			require.ErrorIs(t, only(l.TryAcquire(ctx, permits)), ErrPermitsExceedRate)
			require.ErrorIs(t, only(l.TryAcquireWithin(ctx, permits, timeout)), ErrPermitsExceedRate)
			require.ErrorIs(t, l.Acquire(ctx, permits), ErrPermitsExceedRate)
		case permits <= 1<<36: // more than that is many members, for which this server takes long
			granted, err := l.TryAcquireWithin(ctx, permits, timeout)
			require.NoError(t, err)
			require.True(t, granted)
			free, err := l.AvailablePermits(ctx)
			require.NoError(t, err)
			require.Equal(t, rate.Permits-permits, free)
		}
		var badRelease error
		if permits < 0 || permits > 1<<53 {
			badRelease = ErrInvalidPermits
		}
		call(badRelease, func() error { return l.Release(ctx, permits) })
		free, err := l.AvailablePermits(ctx)
		require.NoError(t, err)
		require.Equal(t, rate.Permits, free)

		conditions := []ExpireOption{ExpireOption(first), ExpireOption(second)}
		var badOption error
		has := func(o ExpireOption) bool { return slices.Contains(conditions, o) }
		if max(first, second) > byte(IfLess) || has(IfNotSet) && (has(IfSet) || has(IfGreater) || has(IfLess)) || has(IfGreater) && has(IfLess) {
			badOption = ErrInvalidOption
		}
		call(badOption, func() error { return only(l.Expire(ctx, time.Duration(duration), conditions...)) })
		call(badOption, func() error { return only(l.ExpireAt(ctx, time.Unix(0, moment), conditions...)) })
	})
}

// withMode is a client that says what it talks to.
type withMode struct {
	rueidis.Client
	mode rueidis.ClientMode
}

func (c withMode) Mode() rueidis.ClientMode { return c.mode }
