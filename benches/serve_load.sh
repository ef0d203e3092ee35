#!/usr/bin/env bash
# Predict requests at four times what the machine can do, for a minute, on loopback only: no crash, bounded memory, honest
# 503s. Beside them, clients that send slowly or break off, and bodies that are no pictures. Needs `wrk` (Debian: apt
# install wrk), curl and python3.
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
rude=
trap 'kill "$server" $rude 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
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

cat >"$folder/misbehave.py" <<'PYTHON'
import collections, random, socket, sys, threading, time
host, port = sys.argv[1].removeprefix("http://").rsplit(":", 1)
token, end = sys.argv[2], time.monotonic() + float(sys.argv[3])
head = f"POST /api/v1/predict HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: image/png\r\n"
sent = collections.Counter()

def send(kind):
    with socket.create_connection((host, int(port)), timeout=40) as client:
        if kind == "slow heads":
            for byte in head.encode()[:60]:
                client.sendall(bytes([byte]))
                time.sleep(0.25)
        elif kind == "slow bodies":
            client.sendall(f"{head}Content-Length: 100000\r\n\r\n".encode())
            while time.monotonic() < end:
                client.sendall(b"x")
                time.sleep(0.5)
        elif kind == "broken off":
            client.sendall(f"{head}Content-Length: 100000\r\n\r\n".encode() + random.randbytes(5000))
        else:
            client.sendall(f"{head}Connection: close\r\nContent-Length: 5000\r\n\r\n".encode() + random.randbytes(5000))
            sent["answered " + client.recv(12)[-3:].decode("ascii", "replace")] += 1

def misbehave(kind):
    while time.monotonic() < end:
        try:
            send(kind)
        except OSError:
            pass  # The server hangs up on them, as it should.
        sent[kind] += 1
        time.sleep(0.05)

kinds = ["slow heads", "slow bodies", "broken off", "no pictures"]
threads = [threading.Thread(target=misbehave, args=(kind,)) for kind in kinds for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("beside them:", ", ".join(f"{count} {kind}" for kind, count in sorted(sent.items())))
PYTHON

memory() { awk '/VmRSS/ {print int($2 / 1024)}' "/proc/$server/status"; }
echo "before: $(memory) MiB"
echo "what the machine can do, with as many requests at a time as it has processors:"
timeout 60 wrk --threads 1 --connections "$(nproc)" --duration 10s --timeout 30s --script "$folder/predict.lua" "$address" | grep -E "Requests/sec|Latency|status"
echo "four times as many as run and wait, for $seconds s:"
# Of 256 connections, some are left for the clients that misbehave.
connections=$(( 4 * ($(nproc) + 64) ))
if (( connections > 236 )); then connections=236; fi
python3 "$folder/misbehave.py" "$address" "$token" "$seconds" &
rude=$!
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
wait "$rude"
rude=
echo "most memory: $most MiB; after: $(memory) MiB"
curl --silent --fail -H "Authorization: Bearer $token" -H "Content-Type: image/png" -o "$folder/mask.png" \
    --data-binary "@$folder/photos/scene-0001.png" "$address/api/v1/predict" && echo "it still answers: none of them hurt"
curl --silent --fail -H "Authorization: Bearer $token" "$address/metrics" | grep -E "protoseg_busy_total|answers_total" | grep -v '#'
