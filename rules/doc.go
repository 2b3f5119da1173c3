// Package rules limits the requests of HTTP handlers by rules in a file, which may change while the
// program runs. Its package grpcrules limits the calls of grpc-go servers by the same rules, and
// [Set.ForwardAuth] the requests to nginx, Traefik and Caddy.
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
// The [documentation] describes all fields, and schema.json is a JSON Schema for editors.
//
// # Reloads
//
// A request is decided by exactly one version of the file, with the deadline of the newest. A file with a
// problem changes nothing, and the error has the line, the column and the field of each problem. Limiters
// are named by domain, rule and key. So permits stay taken over a change, and a limit that keeps its policy
// and its interval continues to count. Options of [Watch] are words without a prefix, such as [OnReload].
//
// The default logger of log/slog gets each request with the rules that decide it, at debug level.
//
// Decisions, headers, refusals and failures are those of packages
// [github.com/rratelimiter/rratelimiter/httplimit] and
// [github.com/rratelimiter/rratelimiter/grpclimit]. Limits are those of
// [github.com/rratelimiter/rratelimiter/limit].
//
// # Several rules
//
// If several rules match a request, the first one decides, or with "match: all" every one, see
// [Set.Middleware]. [Matched] returns their names, and [Settle] settles with all of them.
//
// [documentation]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/rules.md
package rules
