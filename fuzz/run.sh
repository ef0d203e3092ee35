#!/usr/bin/env bash
# Fuzzes every reader, each for the same share of the given minutes:
#
#   bash fuzz/run.sh 60              all readers of data sets
#   bash fuzz/run.sh 60 --weights    models, packs and pickles too (they need Burn, a long build)
#
# It needs `cargo install cargo-fuzz` and works with the stable compiler: without a sanitizer, but with coverage, checks of
# overflow and limits on memory and time. What it finds is kept in fuzz/artifacts, what it learned in fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:?give the minutes in all}
targets=(picture mask coco yolo labelme cvat voc mat rle spec list)
features=()
if [[ "${2:-}" == --weights ]]; then
    targets+=(model pack pickle)
    features=(--features weights)
fi
bash fuzz/seeds.sh
seconds=$((60 * minutes / ${#targets[@]}))
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    cargo fuzz run --release --sanitizer none "${features[@]}" "$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=3000 -timeout=20 -max_len=65536 -print_final_stats=1 2>&1 |
        grep --extended-regexp '^==[0-9]+== ERROR|panicked|Test unit written|number_of_executed_units|SUMMARY' || true
done
if compgen -G 'fuzz/artifacts/*/*' >/dev/null; then
    echo "findings:"
    ls fuzz/artifacts/*/*
    exit 1
fi
