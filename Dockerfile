# The image of rrl: a static binary and the certificate authorities for TLS to Redis.
#
#	docker build -t rrl .    builds in a container of Go's image
#	make image               builds on this machine without a registry

FROM scratch AS base
# The live heap is small and each collection delays requests, so the heap may grow to five times its size.
ENV GOGC=400
USER 65534:65534
EXPOSE 8080 8081
ENTRYPOINT ["/rrl"]
CMD ["serve", "/etc/rls"]

# make image stops here.
FROM base AS local
COPY bin/image/ /

FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN make bin/image

# goreleaser builds the binaries of all platforms before the image.
FROM base AS release
ARG TARGETPLATFORM
COPY --from=golang:1.26 /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY $TARGETPLATFORM/rrl /rrl

FROM base
COPY --from=build /src/bin/image/ /
