"""The model in the box beside PyTorch eager, ONNX Runtime and OpenVINO: the same network, weights and rows, from a normalised
image of 480 x 480 to its label map: features (472 channels at stride 8), cosines with the 512 rows of the bank and 2 taught
ones, the best of each class, bilinear upsampling, argmax. Batch 1, 2 threads. And beside
PSPNet-50 at 473 x 473, both in protoseg.

usage: python box_speed.py --rounds 5 --runs 20        needs cargo build --release --workspace

A round is a process of its own for each; its first image is not counted. Before anything is timed, what the peers make of a
picture of noise is compared, and protoseg's scores of it with PyTorch's. PROTOSEG names another binary than the one of this
tree.
"""
import argparse
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np

from speed import OURS, THREADS, report, runner, take_turns

SIZE, TAUGHT = 480, 2
PEERS = ["PyTorch eager", "ONNX Runtime", "OpenVINO"]
PSPNET = "PSPNet-50 at 473 x 473"
ROOT = pathlib.Path(__file__).resolve().parents[2]


def network(model):
    """An image -> its labels by the bank and two more classes with a random row each."""
    import torch
    from safetensors.torch import load_file

    from efficientnet_lite import Box, unit

    tensors = load_file(model)
    net = Box().load(tensors)
    emphasis = tensors["emphasis"].float().view(1, -1, 1, 1)
    taught = torch.randn(TAUGHT, emphasis.shape[1], generator=torch.Generator().manual_seed(1))
    rows = torch.nn.functional.normalize(torch.cat([tensors["base"].float() * emphasis.flatten(), taught]))

    class Labels(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.rows, self.emphasis = net, torch.nn.Buffer(rows), torch.nn.Buffer(emphasis)

        def forward(self, image):
            features = unit(self.net(image) * self.emphasis)
            cosines = self.rows @ features[0].flatten(1)
            best = torch.cat([cosines[:-TAUGHT].amax(0, keepdim=True), cosines[-TAUGHT:]])
            scores = best.unflatten(1, features.shape[2:])[None]
            return torch.nn.functional.interpolate(scores, image.shape[2:], mode="bilinear", align_corners=False).argmax(1)

    return Labels().eval()


def noise():
    return np.random.default_rng(5).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)


def normalised():
    return ((noise().astype(np.float32) - 127) / 128).transpose(2, 0, 1)[None].copy()


def check(model, folder):
    """How far the peers agree, and how much protoseg's scores of the background differ from PyTorch's."""
    import torch
    from PIL import Image
    from safetensors.torch import load_file

    net = network(model)
    labels = {peer: runner(peer, lambda: net, normalised(), str(folder / "net.onnx"))() for peer in PEERS}
    first, *others = labels.values()
    same = min(float((first == other).mean()) for other in others)
    print(f"pixels to which the peers give the same class: {100 * same:.2f} %", flush=True)
    assert same > 0.999, "the peers are not the same network"
    features = net.net(torch.from_numpy(normalised())).detach()

    Image.fromarray(noise()).save(folder / "noise.png")
    command = [OURS, "predict", "--model", model, folder / "noise.png", "-o", folder / "out", "--write", "none",
               "--logits", folder / "scores.safetensors"]
    subprocess.run(command, check=True, capture_output=True)
    ours = load_file(folder / "scores.safetensors")["logits"][0]
    tensors = load_file(model)
    emphasis = tensors["emphasis"].float()
    unit = torch.nn.functional.normalize
    pixels = unit(features[0].flatten(1).T * emphasis)
    best = 20 * (pixels @ unit(tensors["base"].float() * emphasis).T).amax(1)
    best = best.view(1, 1, *features.shape[2:])
    theirs = torch.nn.functional.interpolate(best, ours.shape, mode="bilinear", align_corners=False)[0, 0]
    worst = (ours - theirs).abs().max().item()
    print(f"largest difference of protoseg's scores from PyTorch's: {worst:.1e} (scores reach {theirs.abs().max():.1f})", flush=True)
    assert worst < 1e-2, "protoseg and the peers are not the same network"


def measure(args, folder):
    import torch

    net = network(args.model)
    torch.onnx.export(net, (torch.from_numpy(normalised()),), str(folder / "net.onnx"), dynamo=True, external_data=False, verbose=False)
    del net
    check(args.model, folder)
    bench = lambda runs, *what: [OURS, "bench", "inference", "--runs", str(runs), "--json", *what]
    commands = {"protoseg": bench(args.runs, "--model", args.model, "--classes", "3")}
    for peer in PEERS:
        commands[peer] = [sys.executable, __file__, "--worker", peer, "--model", args.model, "--runs", str(args.runs), "--folder", folder]
    commands[PSPNET] = bench(max(1, args.runs // 5), "--arch", "pspnet50", "--size", "473")
    title = f"labels by the model in the box, {SIZE} x {SIZE}, batch 1, {THREADS} threads, medians of {args.rounds} rounds of {args.runs} images"
    # From the normalised image on; of a peer, all of its time.
    take_turns(title, commands, args.rounds, lambda answer: answer["median_ms"] - answer.get("preprocess_ms", 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/box.safetensors")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20, help="timed images per process; a fifth as many of PSPNet-50")
    parser.add_argument("--worker", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return report(runner(args.worker, lambda: network(args.model), normalised(), str(args.folder / "net.onnx")), args.runs)
    print(f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} CPUs")
    with tempfile.TemporaryDirectory() as folder:
        measure(args, pathlib.Path(folder))


if __name__ == "__main__":
    main()
