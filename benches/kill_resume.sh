#!/usr/bin/env bash
# Kills a training run (kill -9) at a random moment, again and again, resumes it to its end, and compares the weights with
# those of a run that was left alone, byte for byte.
#
#   bash benches/kill_resume.sh [TIMES]      default 10; half a minute each on 2 cores
set -euo pipefail
cd "$(dirname "$0")/.."
times=${1:-10}
cargo build --release --workspace --quiet
protoseg=${CARGO_TARGET_DIR:-target}/release/protoseg
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/plan.toml" <<'PLAN'
seed = 7
[data]
source = "scenes"
[network]
encoder = "resnet10"
width = 0.125
dim = 16
[training]
epochs = 2
batch = 96
crop = 65
[validation]
images = 10
[checkpoint]
every = 3
PLAN

train() { "$protoseg" train "$work/plan.toml" --out "$1" --json > "$1.log" 2>&1; }
resume() { "$protoseg" train --resume "$1" > "$1.resume.log" 2>&1; }

echo "a run that is left alone"
start=$(date +%s%N)
train "$work/whole"
span=$(( ($(date +%s%N) - start) / 1000000 ))

failed=0
for ((i = 1; i <= times; i++)); do
    out="$work/killed-$i"
    # Not through the function: the process to kill must be the program, not a shell around it.
    "$protoseg" train "$work/plan.toml" --out "$out" --json > "$out.log" 2>&1 & pid=$!
    delay=$(( RANDOM * span / 32768 ))
    sleep "$(printf '%d.%03d' $((delay / 1000)) $((delay % 1000)))"
    kill -9 "$pid" 2> /dev/null || true
    wait "$pid" 2> /dev/null || true
    step=$(grep -c '"event":"step"' "$out.log" || true)
    if [[ ! -e $out/plan.toml ]]; then
        train "$out"
        note="killed after $delay ms, before the run began"
    elif [[ -e $out/last.safetensors ]]; then
        note="ended within $delay ms"
    else
        resume "$out"
        note="killed after $delay ms, in or after step $step"
    fi
    if cmp -s "$out/last.safetensors" "$work/whole/last.safetensors" && cmp -s "$out/best.safetensors" "$work/whole/best.safetensors"; then
        echo "$i: $note: same weights"
    else
        echo "$i: $note: DIFFERENT weights"
        failed=1
    fi
done
exit $failed
