// Package routers has runnable examples of httplimit with common routers and servers, and tests its
// headers with a parser of structured fields.
package routers
