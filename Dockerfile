# The command `protoseg` in a small image:
#
#     docker build -t protoseg .
#     docker run --rm -v "$PWD:/data" protoseg predict --pack my.pack photos -o out
#
# Results belong to the user that the container runs as: add `--user "$(id -u):$(id -g)"` to get them as your own.

FROM rust:1.95-slim-trixie AS build
# This image's own toolchain, not the one that rust-toolchain.toml would download.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /protoseg
COPY . .
RUN cargo build --locked --profile dist --package protoseg-cli --bin protoseg

FROM debian:trixie-slim
COPY --from=build /protoseg/target/dist/protoseg /usr/local/bin/protoseg
COPY LICENSE-MIT LICENSE-APACHE models/NOTICE /usr/local/share/doc/protoseg/
RUN useradd --create-home --uid 1000 protoseg
USER protoseg
WORKDIR /data
ENTRYPOINT ["protoseg"]
CMD ["--help"]
