#!/bin/sh
# Makes a Docker image of the installed redis-server, with the libraries it needs and nothing else, where no registry can be reached:
#
#	image.sh TAG
set -eu

tag=${1:?"name the image: image.sh TAG"}
server=$(command -v "${REDIS_SERVER:-redis-server}") || {
	echo "No redis-server: install it (apt-get install redis-server), or name one in REDIS_SERVER." >&2
	exit 1
}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/usr/bin"
cp -L "$server" "$root/usr/bin/redis-server"
for library in $(ldd "$server" | grep -o '/[^ ]*'); do
	mkdir -p "$root$(dirname "$library")"
	cp -L "$library" "$root$library"
done
chmod -R a+rX "$root"
tar -C "$root" -c . | docker import --change 'CMD ["redis-server"]' - "$tag"
