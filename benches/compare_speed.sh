#!/usr/bin/env bash
# Measures two builds of protoseg alternately: inference of PSPNet-50 and DeepLab-V3-50 at 473, and a training step of
# PSPNet-50 (6 crops of 161). Prints the median time and the peak memory of both, and new over old.
#
#   bash benches/compare_speed.sh OLD NEW [ROUNDS]      default 5 rounds; 6 minutes on 2 idle cores
set -euo pipefail
old=$(realpath "$1") new=$(realpath "$2") rounds=${3:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

declare -A what=(
    [pspnet50]="inference --arch pspnet50 --size 473 --runs 3"
    [deeplabv3-50]="inference --arch deeplabv3-50 --size 473 --runs 3"
    [train]="train --arch pspnet50 --size 161 --batch 6 --runs 2"
)
for ((round = 1; round <= rounds; round++)); do
    for name in "${!what[@]}"; do
        for who in old new; do
            # shellcheck disable=SC2086 # the arguments are words
            "${!who}" bench ${what[$name]} --json > "$work/$name-$who-$round.json"
        done
    done
done
python3 - "$work" "${!what[@]}" <<'PY'
import glob, json, statistics, sys
work, names = sys.argv[1], sys.argv[2:]
for name in sorted(names):
    row = {}
    for who in ("old", "new"):
        runs = [json.load(open(path)) for path in glob.glob(f"{work}/{name}-{who}-*.json")]
        row[who] = [statistics.median(run[key] for run in runs) for key in ("median_ms", "peak_memory_bytes")]
    (old_ms, old_mem), (new_ms, new_mem) = row["old"], row["new"]
    print(f"{name:13} {old_ms:8.1f} -> {new_ms:8.1f} ms ({new_ms / old_ms:.3f})   "
          f"{old_mem / 2**20:6.0f} -> {new_mem / 2**20:6.0f} MiB ({new_mem / old_mem:.3f})")
PY
