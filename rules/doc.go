// Package rules keeps limits in a file, which may change while the program runs, and puts them in front of HTTP handlers and
// servers of grpc-go.
//
//	set, err := rules.Watch(ctx, "/etc/shop/rules.yaml")
//	http.ListenAndServe(":8080", set.Middleware(client)(mux))
//
// The file is YAML or JSON:
//
//	domain: shop
//	defaults: {key: ip, on_failure: {local: 0.25}}
//	rules:
//	  - name: login
//	    match: POST /login
//	    limits: [5/m, 20/h]
//	  - name: tenants
//	    match: /api/
//	    key: header:X-Tenant
//	    limits: 100/m
//	    overrides:
//	      - {key: gold, limits: 1000/m}
//	      - {key: gone, ban: true}
//
// docs/rules.md tells all fields, and schema.json is a JSON Schema for editors.
//
// # What holds
//
// A request is decided by one version of the file, all of it. A file with anything wrong in it changes nothing: what is wrong is told
// with line, column and field ([Error]). What was taken stays taken over a change, since limiters are named by domain, rule and key,
// and count on where a limit keeps its policy and its time.
//
// Decisions, headers, refusals and what happens while Redis fails are those of package
// [github.com/rratelimiter/rratelimiter/httplimit] and [github.com/rratelimiter/rratelimiter/grpclimit], limits those of [github.com/rratelimiter/rratelimiter/limit].
//
// # Several rules
//
// Of several rules that match a request the first decides, or with "match: all" every one, see [Set.Middleware]. [Matched] names
// them, and [Settle] settles with all.
package rules
