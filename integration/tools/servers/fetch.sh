#!/bin/sh
# Fetches a server, of another release of Debian or of a Docker image, with the libraries it needs, and unpacks it into a folder.
# Prints the path of a program that behaves as redis-server:
#
#	fetch.sh NAME          redis-6.0, redis-7.0, redis-8.0, redis-8.6, valkey-8.0, valkey-8.1 or valkey-9.1
#	fetch.sh IMAGE:TAG     redis:6.2, valkey/valkey:9.0 or another image, by a Docker engine; none with musl, such as Alpine's
#
# The folder is RRATELIMITER_SERVERS, by default rratelimiter-servers in the user's cache. What is there stays: remove it to fetch
# anew. apt has lists of its own, and checks the signatures as always. Nothing is installed, and no root is needed.
set -eu

fail() {
	echo "fetch.sh: $*" >&2
	exit 1
}

name=${1:-}
case $name in
redis-6.0) suites="bullseye" package=redis-server ;;
redis-7.0) suites="bookworm" package=redis-server ;;
redis-8.0) suites="trixie" package=redis-server ;;
redis-8.6) suites="sid experimental" package=redis-server ;;
valkey-8.0) suites="bookworm bookworm-backports" package=valkey-server ;;
valkey-8.1) suites="trixie" package=valkey-server ;;
valkey-9.1) suites="forky" package=valkey-server ;;
*:*) suites="" package=redis-server ;;
*) fail "no server ${name:-named}: redis-6.0, redis-7.0, redis-8.0, redis-8.6, valkey-8.0, valkey-8.1, valkey-9.1 and Docker images are known" ;;
esac

cache=${RRATELIMITER_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/rratelimiter-servers}
folder=$(echo "$name" | tr /: _-)
program=$cache/$folder/redis-server
if [ -x "$program" ]; then
	echo "$program"
	exit 0
fi

mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
program=$cache/$folder/redis-server
work=$(mktemp -d "$cache/$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/root"

# debian unpacks the packages of a server and its libraries into $work/root.
debian() {
	for tool in apt-get dpkg; do
		command -v $tool >/dev/null || fail "no $tool: other servers come from Debian's packages; name your own in REDIS_SERVER and run go test"
	done
	keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	[ -e $keyring ] || fail "no $keyring: install debian-archive-keyring"

	mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/debs"
	: >"$work/apt/status"
	for suite in $suites; do
		echo "deb [signed-by=$keyring target=Packages] http://deb.debian.org/debian $suite main"
	done >"$work/apt/sources.list"
	# Nothing is installed in the eyes of this apt, so that it names every library.
	cat >"$work/apt/apt.conf" <<CONFIG
Dir::State "$work/apt";
Dir::State::lists "$work/apt/lists";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt";
Dir::Etc::sourcelist "$work/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "-";
Dir::Etc::preferencesparts "-";
APT::Default-Release "${suites##* }";
APT::Install-Recommends "false";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
CONFIG
	apt() { apt-get -q -c "$work/apt/apt.conf" "$@"; }

	echo "fetch.sh: $name: $package of Debian's ${suites##* }" >&2
	apt -o APT::Update::Error-Mode=any update >"$work/log" 2>&1 || fail "no lists of Debian's ${suites##* }:
	$(cat "$work/log")"
	apt -s install "$package" >"$work/plan" 2>"$work/log" || fail "no $package in Debian's ${suites##* }:
	$(cat "$work/log")"
	# What the plan names besides libraries are the scripts of an installation, and what those need.
	packages=$(sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1=\2/p' "$work/plan" | grep -E '^(lib|zlib|lua-|redis-|valkey-)')
	# shellcheck disable=SC2086 # a list of packages
	(cd "$work/debs" && apt download $packages >"$work/log" 2>&1) || fail "cannot fetch $packages:
	$(cat "$work/log")"
	for deb in "$work"/debs/*.deb; do
		dpkg -x "$deb" "$work/root"
	done
}

# image unpacks a Docker image into $work/root.
image() {
	command -v docker >/dev/null || fail "no docker, which $name needs"
	container=$(docker create "$name" redis-server) || fail "no image $name"
	docker export "$container" | tar -x -C "$work/root" --exclude='dev/*'
	docker rm "$container" >/dev/null
}

case $name in
*:*) image ;;
*) debian ;;
esac

# Debian's servers are links to programs that look at the name they are called by. That is the path that their loader is given.
binary=usr/bin/$package
[ -x "$work/root/$binary" ] || binary=usr/local/bin/$package
[ -x "$work/root/$binary" ] || fail "$name has no program $package"
loader=$(cd "$work/root" && find . \( -name 'ld-linux*.so.*' -o -name 'ld64.so.*' \) | head -n 1)
[ -n "$loader" ] || fail "$name has no loader that is known"
libraries=$(cd "$work/root" && find . \( -name 'libc.so.*' -o -name 'libjemalloc.so.*' \) | sed 's|/[^/]*$||' | sort -u)
path=""
for libs in $libraries; do
	path=$path${path:+:}$cache/$folder/root/${libs#./}
done
rm -rf "$work/apt" "$work/debs" "$work/log" "$work/plan"
cat >"$work/unproven" <<PROGRAM
#!/bin/sh
exec '$cache/$folder/root/${loader#./}' --library-path '$path' '$cache/$folder/root/$binary' "\$@"
PROGRAM
chmod 755 "$work" "$work/unproven"

mkdir "$cache/$folder" 2>/dev/null || fail "$cache/$folder is there without a server in it, or is being fetched: remove it, or try again"
mv "$work/root" "$work/unproven" "$cache/$folder"
version=$("$cache/$folder/unproven" --version) || version="one that does not run here"
case $name,$version in
*:*,*" v="* | *,*" v=${name#*-}."*) ;;
*)
	rm -rf "${cache:?}/$folder"
	fail "this is not $name: $version"
	;;
esac
mv "$cache/$folder/unproven" "$program"
echo "$program"
