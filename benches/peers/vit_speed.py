"""DINOv2 beside PyTorch (transformers), ONNX Runtime and OpenVINO: the same architecture with random weights, from a
normalised image to the last map of normalised tokens. Batch 1, 2 threads.

usage: python vit_speed.py --rounds 5 --runs 5 [--name dinov2-small] [--size 518]     needs cargo build --release --workspace
needs: torch, transformers, onnx, onnxscript, onnxruntime, openvino, numpy

A round is a process of its own for each; its first image is not counted. That both compute the same is shown by
vit_parity.py. PROTOSEG names another binary than the one of this tree.
"""
import argparse
import os
import pathlib
import platform
import sys
import tempfile
import time

import numpy as np

from speed import OURS, THREADS, report, runner, take_turns

PEERS = ["PyTorch eager", "ONNX Runtime", "OpenVINO"]
SIZES = {"dinov2-small": ("dinov2", 384, 12), "dinov2-base": ("dinov2", 768, 12), "dinov2-small-registers": ("registers", 384, 12),
         "dinov2-base-registers": ("registers", 768, 12), "dinov3-vits16": ("dinov3", 384, 12), "dinov3-vitb16": ("dinov3", 768, 12)}


def network(name):
    import torch

    from vit_parity import model, randomise

    kind, width, depth = SIZES[name]

    class Map(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = randomise(model(kind, width, depth))

        def forward(self, image):
            return self.net(image).last_hidden_state

    return Map().eval()


def image(size):
    return np.random.default_rng(5).standard_normal((1, 3, size, size), dtype=np.float32)


def measure(args, folder):
    import torch

    torch.onnx.export(network(args.name), (torch.from_numpy(image(args.size)),), str(folder / "net.onnx"), dynamo=True, external_data=False, verbose=False)
    commands = {"protoseg": [OURS, "bench", "inference", "--arch", f"none-{args.name}", "--size", str(args.size), "--runs", str(args.runs), "--json"]}
    for peer in PEERS:
        commands[peer] = [sys.executable, __file__, "--worker", peer, "--name", args.name, "--size", str(args.size), "--runs", str(args.runs), "--folder", folder]
    title = f"{args.name}, {args.size} x {args.size}, batch 1, {THREADS} threads, medians of {args.rounds} rounds of {args.runs} images"
    # Of protoseg, the network alone.
    take_turns(title, commands, args.rounds, lambda answer: answer.get("features_ms", answer["median_ms"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", choices=SIZES, default="dinov2-small")
    parser.add_argument("--size", type=int, default=518)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--worker", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return report(runner(args.worker, lambda: network(args.name), image(args.size), str(args.folder / "net.onnx")), args.runs)
    print(f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} CPUs")
    with tempfile.TemporaryDirectory() as folder:
        measure(args, pathlib.Path(folder))


if __name__ == "__main__":
    main()
