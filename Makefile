# Everything that this project's people and its CI run. Nothing needs more than Go; the tests against real servers
# need redis-server, a JDK and Maven, and say so where one is missing.

GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
STATICCHECK   = honnef.co/go/tools/cmd/staticcheck@v0.8.2
MODULES       = . ./integration ./benchmarks
GO_TEST       = go test -race -shuffle=on

.PHONY: demo test test-root test-integration test-matrix test-faults test-docker fuzz bench lint deps

# The main job in one command; REDIS_URL=redis://host:6379 runs it on a real Redis.
demo:
	go run ./examples/quickstart

# All tests: the library on a Redis in memory, then real servers and real Redisson (4.7.0, 3.38.1 and 3.20.1).
test: deps test-root test-integration

test-root:
	$(GO_TEST) ./...

test-integration: deps
	cd benchmarks && $(GO_TEST) ./...
	cd integration && $(GO_TEST) -p 1 -timeout 30m ./...

# Every release of Redisson that we claim, with the same suites.
test-matrix: deps
	cd integration && REDISSON_VERSIONS=all $(GO_TEST) -p 1 -timeout 120m ./oracle ./calls ./sequences

# What takes too long for every day: each fault ten times, a million limiters, waiting crowds for half a minute.
test-faults: deps
	cd integration && $(GO_TEST) -count=10 -timeout 120m ./faults ./network
	cd integration && NAMES=1000000 WAITS=30s $(GO_TEST) -v -timeout 60m ./names ./waits ./corruption

# Each fuzz target for a minute.
fuzz:
	for target in $$(go test -list '^Fuzz' . | grep '^Fuzz'); do go test -run '^$$' -fuzz "^$$target\$$" -fuzztime 60s . || exit 1; done

# This library beside every other one; writes docs/performance.md.
bench: deps
	cd benchmarks && go run .

lint:
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt would change: $$files"; exit 1; fi
	for module in $(MODULES); do (cd $$module && go vet ./... && go run $(STATICCHECK) ./... && go run $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...) || exit 1; done

# What the tests need besides Go: installed where that is possible, else named.
deps:
	@sh .ci/deps
