"""A training step of PSPNet or DeepLab-V3 with CAPL in PyTorch on the CPU, and beside ours: forward, the losses of a step, backward, SGD.

usage: python train_step.py pspnet50 161 6 5                network, crop, batch, steps; one step more is run first
       python train_step.py pspnet50 161 6 5 --repeats 3    both in turn, so often, and the ratios; needs
                                                            cargo build --release --workspace
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import memory

CLASSES, BASE, THREADS = 16, 16, 2
OURS = pathlib.Path(__file__).parents[2] / "target/release/protoseg"


def step(args):
    import torch

    import capl

    networks = {"pspnet": capl.PSPNet, "deeplabv3-": capl.DeepLabV3}
    decoder, depth = next((name, args.network[len(name):]) for name in networks if args.network.startswith(name))
    torch.set_num_threads(THREADS)
    torch.manual_seed(7)
    net = networks[decoder](int(depth), CLASSES, BASE)
    capl.splitmix_fill(net)
    net.train()
    encoder = [p for name, p in net.named_parameters() if name.startswith("layer")]
    rest = [p for name, p in net.named_parameters() if not name.startswith("layer")]
    optimizer = torch.optim.SGD([{"params": encoder}, {"params": rest, "lr": 0.1}], lr=0.01, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(args.batch, 3, args.crop, args.crop)
    column = torch.arange(args.crop).expand(args.batch, args.crop, args.crop)
    labels = (column // 6 + torch.arange(args.batch).view(-1, 1, 1)) % 5

    seconds = []
    for _ in range(args.steps + 1):
        started = time.perf_counter()
        loss = net.losses(images, labels, [1, 2])[2]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - started)
    peak = memory.peak()
    print(json.dumps({"median_ms": 1e3 * statistics.median(seconds[1:]), "peak_memory_bytes": peak}))


def compare(args):
    # A thread that spins while it waits would slow the other's start.
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE", "RAYON_NUM_THREADS": str(THREADS)}
    work = [args.network, str(args.crop), str(args.batch), str(args.steps)]
    ours = [OURS, "bench", "train", "--arch", args.network, "--size", str(args.crop), "--batch", str(args.batch),
            "--runs", str(args.steps), "--json"]
    commands = {"protoseg": ours, "PyTorch": [sys.executable, __file__, *work]}
    seconds, peaks = {name: [] for name in commands}, {name: [] for name in commands}
    for _ in range(args.repeats):
        for name, command in commands.items():
            answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
            seconds[name].append(answer["median_ms"] / 1e3)
            peaks[name].append(answer["peak_memory_bytes"] / 2**20)
        print(", ".join(f"{name} {values[-1]:.2f} s" for name, values in seconds.items()), flush=True)
    ratios = [theirs / own for own, theirs in zip(*seconds.values())]
    print(f"\n{args.network}, a training step of {args.batch} crops of {args.crop}, {THREADS} threads, medians of {args.repeats}")
    for name in commands:
        print(f"{name:10} {statistics.median(seconds[name]):7.2f} s {max(peaks[name]):6.0f} MiB")
    share = max(peaks["protoseg"]) / max(peaks["PyTorch"])
    print(f"speed {statistics.median(ratios):.2f} x PyTorch's ({min(ratios):.2f} to {max(ratios):.2f}), memory {share:.2f} x")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    parser.add_argument("crop", type=int)
    parser.add_argument("batch", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--repeats", type=int)
    args = parser.parse_args()
    compare(args) if args.repeats else step(args)


if __name__ == "__main__":
    main()
