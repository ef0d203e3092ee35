#!/usr/bin/env bash
# Compares two builds of protoseg, byte for byte: training for about 20 steps, registration, prediction and evaluation, on
# Scenes and, if its folder is given, on MSRC. Run it before and after a change that must not change any result.
#
#   bash benches/compare_binaries.sh OLD NEW [MSRC]      OLD and NEW are binaries; 5 minutes on 2 cores
#
# Model files may differ in their description; their tensors may not. Times and memory in summaries are left out.
set -euo pipefail
old=$(realpath "$1") new=$(realpath "$2") msrc=${3:+$(realpath "$3")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0

same() { # WHAT COMMAND...: runs a comparison and says how it ended
    local what=$1
    shift
    if "$@"; then echo "same: $what"; else echo "DIFFERENT: $what"; failed=1; fi
}

tensors() { # MODEL MODEL
    python3 - "$1" "$2" <<'PY'
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]) for name, t in header.items()}
a, b = map(read, sys.argv[1:])
sys.exit(a != b)
PY
}

summaries() { # JSON JSON: equal but for times, memory, words of warnings and where things lie
    python3 - "$1" "$2" <<'PY'
import json, sys
def bare(value):
    if isinstance(value, dict):
        return {k: bare(v) for k, v in value.items() if k not in ("seconds", "peak_memory", "model", "pack", "files", "warnings")}
    return [bare(v) for v in value] if isinstance(value, list) else value
a, b = (bare(json.load(open(path))) for path in sys.argv[1:])
sys.exit(a != b)
PY
}

compare() { # NAME DATA BATCH
    local name=$1 data=$2 batch=$3
    cat > "$name.toml" <<PLAN
seed = 7
[data]
source = "$data"
[network]
encoder = "resnet10"
width = 0.25
dim = 32
[training]
epochs = 1
batch = $batch
crop = 97
[validation]
images = 10
PLAN
    for who in old new; do
        "${!who}" train "$name.toml" --out "$name-$who" --json > "$name-$who.log" 2>&1
    done
    echo "$name: $(grep -c '"event":"step"' "$name-new.log") steps"
    same "$name, weights after training" tensors "$name-old/last.safetensors" "$name-new/last.safetensors"
    # Both read the model of the older build from here on.
    local model=$name-old/best.safetensors
    for who in old new; do
        "${!who}" register --model "$model" --data "$data" --shots 3 -o "$name-$who.pack" --json > "$name-$who-register.json"
        "${!who}" predict --model "$model" --pack "$name-$who.pack" "$name-photos" -o "$name-$who-out" --json \
            --write index,palette,overlay,confidence,probability,coco > "$name-$who-predict.json"
        "${!who}" eval --model "$model" --data "$data" --limit 20 --seeds 123,321 -o "$name-$who-eval" --json > "$name-$who-eval.json"
    done
    same "$name, packs" cmp "$name-old.pack" "$name-new.pack"
    same "$name, report of registration" summaries "$name-old-register.json" "$name-new-register.json"
    for kind in index palette overlay confidence probability coco.json; do
        same "$name, $kind" diff -r "$name-old-out/$kind" "$name-new-out/$kind"
    done
    same "$name, summary of prediction" summaries "$name-old-predict.json" "$name-new-predict.json"
    same "$name, results of evaluation" summaries "$name-old-eval.json" "$name-new-eval.json"
    same "$name, table of results" cmp "$name-old-eval/results.csv" "$name-new-eval/results.csv"
}

mkdir scenes-photos
"$old" data show scenes --count 4 --columns 4 --seed 1 -o scenes-photos/sheet.png > /dev/null
compare scenes scenes 60
if [[ -n $msrc ]]; then
    mkdir msrc-photos
    find "$msrc/images" -name '1_1*_s.*' | sort | head -8 | xargs -I{} cp {} msrc-photos/
    compare msrc "$msrc" 9
fi
exit $failed
