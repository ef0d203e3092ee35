#!/usr/bin/env bash
# The compiler for fuzzing, as Cargo's RUSTC_WRAPPER: crates that read files are built with coverage, which guides the fuzzer,
# and with checks of overflow; Burn and all others as for any release build, because instrumenting them takes very long.
set -euo pipefail
name=
for ((at = 1; at <= $#; at++)); do
    if [[ "${!at}" == --crate-name ]]; then
        next=$((at + 1))
        name=${!next}
    fi
done
case "$name" in
protoseg_kernels | protoseg_testing) ;;
protoseg | protoseg_* | pytorch_reader | safetensors | png | \
    picture | mask | coco | yolo | labelme | cvat | voc | mat | rle | spec | list | model | pack | pickle | seeds)
    set -- "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares -Coverflow-checks=yes --cfg=fuzzing
    ;;
esac
exec "$@"
