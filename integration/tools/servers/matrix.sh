#!/bin/sh
# Runs suites of integration on several servers, which fetch.sh gets, and says at the end what came of each:
#
#	matrix.sh redis-6.0,valkey-9.1 ./limits/policies ./compatibility/calls
#
# A suite runs on all servers before the next one begins, and what the tests log is shown: there they say what a server lacks.
set -eu

cd "$(dirname "$0")/../.."
servers=$(echo "$1" | tr , ' ')
shift
for server in $servers; do
	sh tools/servers/fetch.sh "$server" >/dev/null
done

results=""
failed=0
for suite in "$@"; do
	for server in $servers; do
		program=$(sh tools/servers/fetch.sh "$server")
		version=$("$program" --version | sed 's/ server v=\([^ ]*\).*/ \1/')
		echo "=== $suite on $version"
		result=ok
		REDIS_SERVER=$program go test -race -shuffle=on -v -timeout 60m "$suite" || result=FAIL failed=1
		results="$results$result	$version	$suite
"
	done
done
printf '\n%s' "$results"
exit $failed
