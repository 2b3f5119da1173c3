#!/bin/sh
# Makes a Docker image of Debian's Redis or Valkey, for machines that reach no registry of images:
#
#	image.sh redis-8.0     the image debian-redis:8.0
#
# fetch.sh lists the servers.
set -eu

program=$(sh "$(dirname "$0")/../tools/servers/fetch.sh" "$1")
root=$(dirname "$program")/root
# The program is a script that calls the loader of the server's own libraries. The image calls it in the same way, and
# like the official images it adds the arguments of the container and lets other hosts connect.
entrypoint=$(sed -n "s|'$root|'|g; s|:$root|:|g
	s|^exec '\(.*\)' --library-path '\(.*\)' '\(.*\)' .*|[\"\1\", \"--library-path\", \"\2\", \"\3\", \"--protected-mode\", \"no\"]|p" "$program")
tar -c -C "$root" . | docker import --change "ENTRYPOINT $entrypoint" --change "EXPOSE 6379" - "debian-$(echo "$1" | tr - :)" >/dev/null
echo "debian-$(echo "$1" | tr - :)"
