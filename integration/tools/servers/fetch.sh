#!/bin/sh
# Fetches a server of another release of Debian, with the libraries it needs, and unpacks it into a folder beside those that are
# installed. Prints the path of a program that behaves as redis-server:
#
#	fetch.sh NAME          redis-6.0, redis-7.0, redis-8.0, redis-8.6, valkey-8.0, valkey-8.1 or valkey-9.1
#
# The folder is RRATELIMITER_SERVERS, by default rratelimiter-servers in the user's cache. What is there stays: remove it to fetch
# anew. apt does the fetching, with lists of its own, and checks the signatures as always; nothing is installed, and nobody need be root.
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
*) fail "no server ${name:-named}: redis-6.0, redis-7.0, redis-8.0, redis-8.6, valkey-8.0, valkey-8.1 and valkey-9.1 are known" ;;
esac

cache=${RRATELIMITER_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/rratelimiter-servers}
program=$cache/$name/redis-server
if [ -x "$program" ]; then
	echo "$program"
	exit 0
fi

for tool in apt-get dpkg; do
	command -v $tool >/dev/null || fail "no $tool: other servers come from Debian's packages; name your own in REDIS_SERVER and run go test"
done
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keyring ] || fail "no $keyring: install debian-archive-keyring"

mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
program=$cache/$name/redis-server
work=$(mktemp -d "$cache/$name.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/debs" "$work/root"
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

# Debian's servers are links to programs that look at the name they are called by. That is the path that their loader is given.
binary=usr/bin/$package
[ -x "$work/root/$binary" ] || fail "the package $package has no $binary"
loader=$(cd "$work/root" && find . \( -name 'ld-linux*.so.*' -o -name 'ld64.so.*' \) | head -n 1)
[ -n "$loader" ] || fail "libc6 of Debian's ${suites##* } has no loader that is known"
libraries=$(cd "$work/root" && find . \( -name 'libc.so.*' -o -name 'libjemalloc.so.*' \) | sed 's|/[^/]*$||' | sort -u)
path=""
for folder in $libraries; do
	path=$path${path:+:}$cache/$name/root/${folder#./}
done
rm -rf "$work/apt" "$work/debs" "$work/log" "$work/plan"
cat >"$work/unproven" <<PROGRAM
#!/bin/sh
exec '$cache/$name/root/${loader#./}' --library-path '$path' '$cache/$name/root/$binary' "\$@"
PROGRAM
chmod 755 "$work" "$work/unproven"

mkdir "$cache/$name" 2>/dev/null || fail "$cache/$name is there without a server in it, or is being fetched: remove it, or try again"
mv "$work/root" "$work/unproven" "$cache/$name"
version=$("$cache/$name/unproven" --version) || version="one that does not run here"
case $version in
*" v=${name#*-}."*) ;;
*)
	rm -rf "${cache:?}/$name"
	fail "the $package of Debian's ${suites##* } is not ${name#*-}: $version"
	;;
esac
mv "$cache/$name/unproven" "$program"
echo "$program"
