"""The table of docs/encoders.md: parameters, work and time of every encoder alone, with random weights, at 473 and 518 pixels.

usage: python benches/encoders.py [NAME ...]       needs cargo build --release --workspace; PROTOSEG names another binary
"""
import json
import os
import pathlib
import subprocess
import sys

OURS = os.environ.get("PROTOSEG", pathlib.Path(__file__).parents[1] / "target/release/protoseg")
NAMES = ["efficientnet-lite0", "mobilenetv2", "mobilenetv3-large", "mobilenetv3-small", "resnet18", "resnet50", "resnet101", "vgg16", "convnext-tiny", "convnext-small",
         "dinov2-small", "dinov2-small-registers", "dinov2-base", "dinov3-vits16", "dinov3-vitb16"]
SIZES = [473, 518]


def measure(name, size):
    command = [OURS, "bench", "layers", "--arch", f"none-{name}", "--size", str(size), "--runs", "3", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    print("| name | parameters | " + " | ".join(f"GMAC at {size} | ms" for size in SIZES) + " |")
    print("|---|---|" + "---|---|" * len(SIZES))
    for name in sys.argv[1:] or NAMES:
        found = [measure(name, size) for size in SIZES]
        cells = [f"{sum(layer['gmac'] for layer in one['layers']):.1f} | {one['median_ms']:.0f}" for one in found]
        print(f"| {name} | {found[0]['parameters'] / 1e6:.1f} M | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
