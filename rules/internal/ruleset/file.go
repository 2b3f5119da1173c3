package ruleset

import (
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// File is a decoded file of rules. It is immutable.
type File struct {
	rules     []*rule
	rates     []StatedRate
	settings  fileSettings
	address   httplimit.Address
	forwarded forwardedHeaders
	all       bool // all rules that match decide, not only the first

	allowSlashes bool // paths may have escaped slashes and backslashes
	usesPaths    bool // a rule without shadow depends on the path
	usesHosts    bool // a rule without shadow depends on the host

	http matcher
	grpc matcher
}

// Names returns the names of the rules in their order.
func (s *File) Names() []string {
	names := make([]string, len(s.rules))
	for i, r := range s.rules {
		names[i] = r.name
	}
	return names
}

// Rates returns the rates that the file states for Redisson limiters.
func (s *File) Rates() []StatedRate { return s.rates }

// Address returns the address settings of the file.
func (s *File) Address() httplimit.Address { return s.address }

func (s *File) build() {
	for i, r := range s.rules {
		s.usesPaths = s.usesPaths || !r.settings.Shadow && r.usesPaths()
		s.usesHosts = s.usesHosts || !r.settings.Shadow && r.usesHosts()
		for _, c := range r.conditions {
			if c.rpc {
				s.grpc.add(i, r.onlyBans(), c)
			} else {
				s.http.add(i, r.onlyBans(), c)
			}
		}
	}
}

// forwardedHeaders are the headers with which a proxy describes the request that it asks about.
type forwardedHeaders struct {
	MethodHeader headerName
	HostHeader   headerName
	URIHeader    headerName `file:"uri_header"`
}

// Set is the rules of a file that may change. The zero Set has no rules. It is safe for concurrent use.
type Set struct {
	current atomic.Pointer[File]
}

var noRules = new(File)

// File returns the current file.
func (s *Set) File() *File {
	if file := s.current.Load(); file != nil {
		return file
	}
	return noRules
}

// Replace puts a file into force.
func (s *Set) Replace(file *File) { s.current.Store(file) }
