#!/usr/bin/env bash
# Predict requests at four times what the machine can do, for a minute, on loopback only: no crash, bounded memory, honest
# 503s. Needs `wrk` (Debian: apt install wrk) and curl.
#
#   bash benches/serve_load.sh [target/release/protoseg] [SECONDS]
set -euo pipefail
binary=${1:-target/release/protoseg}
seconds=${2:-60}
if (( seconds < 1 || seconds > 120 )); then
    echo "SECONDS must be from 1 to 120" >&2
    exit 2
fi
command -v wrk >/dev/null || { echo "wrk is missing: apt install wrk" >&2; exit 2; }

folder=$(mktemp -d)
token=load-test-$RANDOM$RANDOM$RANDOM$RANDOM
"$binary" data draw -o "$folder/photos" --count 1 --size 480 >/dev/null
"$binary" serve --packs "$folder/packs" --port 0 --token "$token" >"$folder/out" 2>"$folder/err" &
server=$!
# By its own number, and nobody else's.
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 100); do
    grep -q http "$folder/out" && break
    sleep 0.1
done
address=$(sed -n '1s,/?token.*,,p' "$folder/out")

cat >"$folder/predict.lua" <<LUA
local file = io.open("$folder/photos/scene-0001.png", "rb")
wrk.method = "POST"
wrk.path = "/api/v1/predict"
wrk.body = file:read("*a")
wrk.headers["Authorization"] = "Bearer $token"
wrk.headers["Content-Type"] = "image/png"
local counts = {}
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init() statuses = {} end
function response(status) statuses[status] = (statuses[status] or 0) + 1 end
function done(summary)
  for _, thread in ipairs(threads) do
    for status, count in pairs(thread:get("statuses")) do counts[status] = (counts[status] or 0) + count end
  end
  for status, count in pairs(counts) do print("status " .. status .. ": " .. count) end
end
LUA

memory() { awk '/VmRSS/ {print int($2 / 1024)}' "/proc/$server/status"; }
echo "before: $(memory) MiB"
echo "what the machine can do, with as many requests at a time as it has processors:"
timeout 60 wrk --threads 1 --connections "$(nproc)" --duration 10s --timeout 30s --script "$folder/predict.lua" "$address" | grep -E "Requests/sec|Latency|status"
echo "four times as many as run and wait, for $seconds s:"
connections=$(( 4 * ($(nproc) + 64) ))
if (( connections > 250 )); then connections=250; fi
timeout $(( seconds + 60 )) wrk --threads 2 --connections "$connections" --duration "${seconds}s" --timeout 30s --script "$folder/predict.lua" "$address" \
    | grep -E "Requests/sec|Latency|status|Socket errors" &
load=$!
most=0
while kill -0 "$load" 2>/dev/null; do
    now=$(memory)
    if (( now > most )); then most=$now; fi
    sleep 0.5
done
wait "$load"
echo "most memory: $most MiB; after: $(memory) MiB"
curl --silent --fail "$address/health" >/dev/null && echo "it still answers"
curl --silent --fail -H "Authorization: Bearer $token" "$address/metrics" | grep -E "protoseg_busy_total|answers_total" | grep -v '#'
