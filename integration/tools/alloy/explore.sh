#!/bin/sh
# Runs commands of models in Alloy, which Maven fetches, and prints what it explored. It fails if a command does not
# find what the model expects of it:
#
#	explore.sh '*' model/*.als          all commands
#	explore.sh Mistake model/*.als
set -eu

commands=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
	-Dartifact=org.alloytools:org.alloytools.alloy.dist:6.2.0 -DoutputDirectory="$work"
for model in "$@"; do
	echo "$model"
	java -jar "$work"/*.jar exec --command "$commands" --solver glucose --force --output "$work/results" "$model"
done
