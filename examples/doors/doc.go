// Package doors has runnable examples of httplimit with common routers and servers, and tests its headers
// with a parser of structured fields. It is a module of its own, since the library needs none of these
// dependencies.
package doors
