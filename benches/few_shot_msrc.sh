#!/usr/bin/env bash
# Trains the few-shot systems of docs/results.md on MSRC-21, fold 0, asks all of them the same episodes, and prints the
# table.
#
#   benches/few_shot_msrc.sh MSRC RESNET50 OUT [SYSTEM...]
#
# MSRC: the folder of the data set; RESNET50: ImageNet weights; OUT: where the runs go. Systems: panet, capl-panet, pfenet,
# capl-pfenet, hsnet; all of them if none is named. A run that is there already is not trained again. PROTOSEG names
# another binary than target/release/protoseg.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
protoseg=${PROTOSEG:-$here/target/release/protoseg}
if [ $# -lt 3 ]; then
    sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0" >&2
    exit 2
fi
msrc=$1 weights=$2 out=$3
shift 3
systems=("$@")
if [ ${#systems[@]} = 0 ]; then
    systems=(panet capl-panet pfenet capl-pfenet hsnet)
fi
mkdir -p "$out"
list=$out/episodes.json

for system in "${systems[@]}"; do
    run=$out/$system
    if [ ! -f "$run/last.safetensors" ]; then
        start=$(date +%s)
        "$protoseg" train "$here/recipes/fs-msrc-$system.toml" \
            --root "$msrc" --init "$weights" --out "$run" --force --plain 2>"$out/$system.log" >/dev/null
        echo $(($(date +%s) - start)) >"$out/$system.seconds"
    fi
    if [ ! -f "$list" ]; then
        "$protoseg" episodes --model "$run/last.safetensors" --data msrc --root "$msrc" \
            --style pfenet --shots 1,5 --episodes 200 --runs 3 --save-list "$list" >/dev/null
    fi
    "$protoseg" episodes --model "$run/last.safetensors" --data msrc --root "$msrc" \
        --list "$list" --shots 1,5 -o "$run/episodes" --force >/dev/null
done

python3 - "$out" "${systems[@]}" <<'PY'
import json, pathlib, sys
out, systems = pathlib.Path(sys.argv[1]), sys.argv[2:]
print("| system | steps | minutes | class mIoU, 1 shot | 5 shots | FB-IoU, 1 shot | 5 shots |")
print("|---|---|---|---|---|---|---|")
for system in systems:
    rows = {row["shots"]: row for row in json.loads((out / system / "episodes/results.json").read_text())["rows"]}
    events = map(json.loads, (out / system / "metrics.jsonl").read_text().splitlines())
    steps = next(event["steps"] for event in events if event["event"] == "start")
    minutes = int((out / f"{system}.seconds").read_text()) / 60
    cell = lambda shots, key: "{mean:.1f} ±{std:.1f}".format(**rows[shots][key])
    cells = [cell(shots, key) for key in ("class_miou", "fb_iou") for shots in (1, 5)]
    print(f"| {system} | {steps} | {minutes:.0f} | " + " | ".join(cells) + " |")
PY
