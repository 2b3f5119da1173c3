#!/usr/bin/env bash
# Takes the place of a user outside this repository: has Go fetch, build and install the published modules from a copy
# of the repository in which they are tagged as a release tags them. Run it in the root of the repository:
#
#	fetchcheck.sh                      compares what consumers get with api/dependencies.txt
#	fetchcheck.sh -update              writes api/dependencies.txt
#	fetchcheck.sh each CMD ...         runs CMD in each module, without go.work
#	fetchcheck.sh published CMD ...    the same in the published modules
#
# The last two are for commands that ignore go.work, such as go mod tidy.
set -euo pipefail
export LC_ALL=C
unset GOFLAGS GOWORK

dependencies=api/dependencies.txt
consumer=integration/tools/fetchcheck/testdata/consumer # a program that uses every public package
root=$PWD
began=$SECONDS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "fetchcheck: $*" >&2; exit 1; }

# quietly runs a command, whose output is shown if it fails.
quietly() { "$@" >"$work/log" 2>&1 || fail "$*: $(cat "$work/log")"; }

declare -A folders # of the modules
all=$(go list -m -f '{{.Path}}')
for path in $all; do folders[$path]=$(go list -m -f '{{.Dir}}' "$path"); done
published=$(grep -vE '/(integration|examples)$' <<<"$all")
module=$(head -n 1 <<<"$published") # of the root

versions=$(for path in $all; do
	sed -nE "s,^(require )?\s*$module(/\S*)? (v\S+).*,\3,p" "${folders[$path]}/go.mod"
done | sort -u)
[ "$(wc -w <<<"$versions")" = 1 ] || fail "modules require each other at:" $versions": use one version"
version=$versions
for path in $all; do
	! grep -HnE "^(require )?\s*$module/(integration|examples) v" "${folders[$path]}/go.mod" ||
		fail "a module requires one that is not published"
done
for path in $published; do
	! grep -HnE '^(replace|exclude)\b' "${folders[$path]}/go.mod" ||
		fail "consumers ignore or reject the line: put it into go.work, or remove it"
done

# The packages of each module that others can import. A command is the package of its module.
declare -A packages
libraries="" commands=""
for path in $published; do
	packages[$path]=$(cd "${folders[$path]}" && go list -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' ./... |
		grep -vE '^$|/internal(/|$)' || true)
	name=$(cd "${folders[$path]}" && go list -f '{{.Name}}' . 2>/dev/null || true)
	[ "$name" = main ] && commands="$commands $path" || libraries="$libraries $path"
done

# The copy has what a commit of everything would have: no ignored files.
copy=$work/repository
GIT_INDEX_FILE=$work/index git add --all
GIT_INDEX_FILE=$work/index git checkout-index --all --prefix="$copy/"
git() { command git -C "$copy" -c user.name=fetchcheck -c user.email=fetchcheck@localhost "$@"; }
git init -q
git add --all --force
git commit -q -m "$version"
for path in $published; do
	[ "$path" = "$module" ] && git tag "$version" || git tag "${path#"$module"/}/$version"
done
unset -f git

# A consumer has no workspace, a module cache of its own, and the copy in place of the repository. The other modules
# come from the user's cache; they were checked when they came into it. -trimpath makes what was built independent
# of the cache's folder, so that the build cache has it the next time.
downloads=$(go env GOMODCACHE)/cache/download
export GOPROXY="file://$downloads,$(go env GOPROXY)" GONOPROXY=$module GOSUMDB=off GOWORK=off
export GOFLAGS="-modcacherw -trimpath -buildvcs=false" GOMODCACHE=$work/cache GOBIN=$work/bin
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$copy.insteadOf" GIT_CONFIG_VALUE_0="https://$module"

case ${1:-} in
each | published)
	[ "$1" = each ] && chosen=$all || chosen=$published
	shift
	for path in $chosen; do (cd "${folders[$path]}" && "$@"); done
	exit
	;;
esac

# fetch makes the current folder a module, gets modules, tidies it and vets it. It prints what the go.mod requires
# besides modules of this repository.
fetch() {
	quietly go mod init example.com/consumer
	quietly go get "${@/%/@$version}"
	quietly go mod tidy
	quietly go vet ./...
	sed -nE "\,$module[/ ],!s,^(require |\t)(\S+) v[0-9].*,\2,p" go.mod | sort
}

# entry prints a heading and what is below it.
entry() { echo "$1"; sed -n 's,^..*$,	&,p' <<<"$2"; }

# Each library alone, for a program that imports each of its packages but those for tests.
touch "$work/alone" "$work/found"
for path in $libraries; do
	mkdir "$work/program"
	{
		printf 'package main\n\nimport (\n'
		for package in ${packages[$path]}; do [[ $package == *test ]] || printf '\t_ "%s"\n' "$package"; done
		printf ')\n\nfunc main() {}\n'
	} >"$work/program/main.go"
	gets=$(cd "$work/program" && fetch "$path")
	rm -r "$work/program"
	echo "$gets" >>"$work/alone"
	entry "$path" "$gets" >>"$work/found"
	echo "fetchcheck: a program with $path: ok"
done

# All libraries, for a program that uses every package. The binary must not have what only its tests use.
cp -r "$root/$consumer" "$work/program"
cd "$work/program"
# shellcheck disable=SC2086 # a list of modules
gets=$(fetch $libraries)
used=$(go list -f '{{join .Imports "\n"}}{{"\n"}}{{join .TestImports "\n"}}')
for path in $libraries; do
	for package in ${packages[$path]}; do
		grep -qx "$package" <<<"$used" || fail "$consumer does not use $package: add a call of it"
	done
done
quietly go build -o "$work/consumer"
{ echo "$published" && cat "$work/alone"; } >"$work/expected" # no pipe: grep -q ends before it is written
for dependency in $(go version -m "$work/consumer" | awk '$1 == "dep" { print $2 }'); do
	grep -qx "$dependency" "$work/expected" ||
		fail "$dependency reaches the program of a consumer: only tests may use it"
done
entry "besides, for tests of a consumer" "$(comm -13 <(sort "$work/alone") <(echo "$gets"))" >>"$work/found"
echo "fetchcheck: a program with all modules: ok"

if [ "${1:-}" = -update ]; then
	cp "$work/found" "$root/$dependencies"
elif ! diff "$root/$dependencies" "$work/found"; then
	fail "consumers get other modules than $dependencies lists: a dependency of tests must not be among them;" \
		"if the change is wanted: make api"
fi

for path in $commands; do
	quietly go install "$path@$version"
	quietly "$GOBIN/${path##*/}" --version
	grep -qF "$version" "$work/log" || fail "$path --version is not $version: $(cat "$work/log")"
done
echo "fetchcheck: ok: $version in $((SECONDS - began)) s"
