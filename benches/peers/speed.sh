#!/bin/sh
# Everything about speed beside other software, in one command: builds protoseg, makes a Python environment (once), and measures
# inference of PSPNet-50, DeepLab-V3-50 and the encoder EfficientNet-Lite0 at 473, and training steps of PSPNet-50, runs alternating. About half an hour.
#
#   benches/peers/speed.sh                            all of it
#   benches/peers/speed.sh --networks pspnet50        inference only, with the options of speed.py
#
# PROTOSEG_PEERS is where the environment is kept, by default in the user's cache folder.
set -eu
cd "$(dirname "$0")"
peers=${PROTOSEG_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/protoseg/peers}
if ! cmp -s requirements.txt "$peers/requirements.txt"; then
    python3 -m venv "$peers"
    "$peers/bin/pip" install --quiet --requirement requirements.txt
    cp requirements.txt "$peers/requirements.txt"
fi
cargo build --release --workspace --quiet --manifest-path ../../Cargo.toml
if [ $# -gt 0 ]; then
    exec "$peers/bin/python" speed.py "$@"
fi
"$peers/bin/python" speed.py
"$peers/bin/python" train_step.py pspnet50 161 6 2 --repeats 3
"$peers/bin/python" train_step.py pspnet50 473 2 2 --repeats 3
