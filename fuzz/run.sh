#!/usr/bin/env bash
# Fuzzes every reader, each for the same share of the given minutes:
#
#   bash fuzz/run.sh 60                   all readers
#   bash fuzz/run.sh 10 model pack        some of them
#
# It works with the stable compiler and needs no other tool. There is no sanitizer, but coverage, checks of overflow, and
# limits on memory and time. Only crates that read files are instrumented (rustc.sh): Burn would take very long. What it
# finds is kept in fuzz/artifacts, what it learned in fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:?give the minutes in all}
shift
targets=("$@")
if [[ ${#targets[@]} == 0 ]]; then
    targets=(picture mask coco yolo labelme cvat voc mat rle spec list model pack pickle)
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-fuzz/target}
RUSTC_WRAPPER="$PWD/fuzz/rustc.sh" cargo build --release --features weights --manifest-path fuzz/Cargo.toml
bash fuzz/seeds.sh
PROTOSEG_CORPUS=fuzz/corpus "$CARGO_TARGET_DIR/release/seeds" -runs=0 2>/dev/null
seconds=$((60 * minutes / ${#targets[@]}))
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    "$CARGO_TARGET_DIR/release/$target" "fuzz/corpus/$target" -artifact_prefix="fuzz/artifacts/$target/" \
        -max_total_time="$seconds" -rss_limit_mb=3000 -timeout=20 -max_len=600000 -print_final_stats=1 2>&1 |
        grep --extended-regexp '^==[0-9]+== ERROR|panicked|Test unit written|number_of_executed_units|SUMMARY' || true
done
if compgen -G 'fuzz/artifacts/*/*' >/dev/null; then
    echo "findings:"
    ls fuzz/artifacts/*/*
    exit 1
fi
