package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// users maps hashes of keys to names. The time of a lookup reveals nothing about other keys.
type users map[[sha256.Size]byte]string

// parseUsers reads a name and a key in each line.
func parseUsers(text string) (users, error) {
	us := make(users)
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d has %d words, want a name and a key", i+1, len(fields))
		}
		hash := sha256.Sum256([]byte(fields[1]))
		if _, ok := us[hash]; ok {
			return nil, fmt.Errorf("line %d has the key of another line", i+1)
		}
		us[hash] = fields[0]
	}
	if len(us) == 0 {
		return nil, errors.New("the file has no users")
	}
	return us, nil
}

// authenticated gives requests with a valid key a bill of their user, whose keys share one budget. It
// creates no limiter for other keys.
func (us users) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			key = r.Header.Get("X-Api-Key")
		}
		user, ok := us[sha256.Sum256([]byte(key))]
		if !ok {
			writeError(w, r, http.StatusUnauthorized, "authentication_error", "There is no user with this key.")
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), billKey{}, &bill{user: user})))
	})
}
