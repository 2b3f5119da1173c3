// Package doors shows httplimit with the routers and servers that people use, each as an example that runs, and holds its
// headers against a parser of structured fields. It is a module of its own, since the library depends on none of them.
package doors
