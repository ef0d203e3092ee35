"""The table of docs/encoders.md: parameters, work and time of every encoder alone, with random weights, at 473 and 518
pixels, and the licence and origin of the weights of its name.

usage: python benches/encoders.py [NAME ...]       needs cargo build --release --workspace; PROTOSEG names another binary
"""
import json
import os
import pathlib
import subprocess
import sys

OURS = os.environ.get("PROTOSEG", pathlib.Path(__file__).parents[1] / "target/release/protoseg")
NAMES = ["efficientnet-lite0", "mobilenetv2", "mobilenetv3-large", "mobilenetv3-small",
         "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg16", "convnext-tiny", "convnext-small",
         "dinov2-small", "dinov2-small-registers", "dinov2-base", "dinov2-base-registers",
         "dinov2-large", "dinov2-large-registers", "dinov3-vits16", "dinov3-vitb16"]
SIZES = [473, 518]


def ours(*args):
    command = [OURS, *args, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(name, size):
    return ours("bench", "layers", "--arch", f"none-{name}", "--size", str(size), "--runs", "3")


def source(weights):
    """Licence and origin of the weights of this name, if there are any."""
    if weights is None:
        return "- | -"
    origin = "in the box" if weights["is_in_box"] else weights["repository"] or "torchvision"
    return f"{weights['licence']} | {origin}"


def main():
    named = {weights["name"]: weights for weights in ours("weights", "list")["weights"]}
    print("| name | parameters | GMAC at " + " / ".join(map(str, SIZES)) + " | ms | licence | where from |")
    print("|---|---|---|---|---|---|")
    for name in sys.argv[1:] or NAMES:
        found = [measure(name, size) for size in SIZES]
        gmac = " / ".join(f"{sum(layer['gmac'] for layer in one['layers']):.1f}" for one in found)
        ms = " / ".join(f"{one['median_ms']:.0f}" for one in found)
        parameters = f"{found[0]['parameters'] / 1e6:.1f} M"
        print(f"| {name} | {parameters} | {gmac} | {ms} | {source(named.get(name))} |", flush=True)


if __name__ == "__main__":
    main()
