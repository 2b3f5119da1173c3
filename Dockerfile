# rrl in an image of its own: a static binary, and the authorities that TLS to a Redis trusts.
#
#	docker build -t rrl .    builds in a container of Go's image
#	make image               builds on this machine, and needs no registry

FROM scratch AS base
# The live heap is small, and each collection delays requests: it grows to five times before it is collected.
ENV GOGC=400
USER 65534:65534
EXPOSE 8080 8081
ENTRYPOINT ["/rrl"]
CMD ["serve", "/etc/rls"]

# make image ends here.
FROM base AS local
COPY bin/image/ /

FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN make bin/image

FROM base
COPY --from=build /src/bin/image/ /
