"""A checkpoint written by PyTorch must give PyTorch's scores after `protoseg import`, from image files on.

Makes a PSPNet-101 with random weights (13 base and 4 novel rows, canvas 137), saves it as a training checkpoint of the
reference is saved (inside `state_dict`, names with `module.`, zip and legacy containers), registers two supports a novel
class and scores three queries in PyTorch, all from MSRC's JPEG photos, then runs our test of the same on both files.

usage: python import_parity.py [--depth 101] [--size 137] [--seed 7] [--keep FOLDER]
needs: torch, safetensors, numpy, opencv-python-headless; ../../../shared/data/msrc
"""
import argparse
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
from safetensors.torch import save_file

import capl

REPO = Path(__file__).resolve().parents[2]
MSRC = REPO.parent / "shared/data/msrc"
MEAN, STD = np.array([123.675, 116.28, 103.53], np.float32), np.array([58.395, 57.12, 57.375], np.float32)
NOVEL, N_BASE, SHOTS, QUERIES = ["cow", "car", "bird", "boat"], 13, 2, 3


def fit(height, width, size):
    """Longer side to `size`, the other in proportion (truncated), both floored to a multiple of 8."""
    ratio = size / max(height, width)
    height, width = (size, int(width * ratio)) if height >= width else (int(height * ratio), size)
    return height // 8 * 8, width // 8 * 8


def read_image(path, size):
    picture = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB).astype(np.float32)
    height, width = fit(*picture.shape[:2], size)
    canvas = np.zeros((size, size, 3), np.float32)
    canvas[:height, :width] = cv2.resize(picture, (width, height))
    return torch.from_numpy(((canvas - MEAN) / STD).transpose(2, 0, 1).copy())


def fit_label(label, size):
    height, width = fit(*label.shape, size)
    canvas = np.full((size, size), capl.IGNORE, np.uint8)
    canvas[:height, :width] = cv2.resize(label, (width, height), interpolation=cv2.INTER_NEAREST)
    return torch.from_numpy(canvas)


@torch.no_grad()
def random_model(depth, size, photos, labels):
    """Random weights whose features are not degenerate: statistics from photos, then disturbed; rows near class means."""
    net = capl.PSPNet(depth, N_BASE + len(NOVEL), N_BASE)
    norms = [module for module in net.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.weight.uniform_(0.8, 1.2), norm.bias.uniform_(-0.1, 0.1)
        norm.momentum = None
    stages = net.train().stages(photos[:6])
    net.head(stages[4]), net.aux(stages[3])
    for norm in norms:
        norm.momentum = 0.1
        norm.running_mean += 0.1 * torch.randn_like(norm.running_mean) * norm.running_var.sqrt()
        norm.running_var *= 1 + 0.5 * torch.rand_like(norm.running_var)
    net.gamma_conv[0].weight *= 12
    net.gamma_conv[2].weight *= 12
    features = torch.cat([net.eval().features(photo[None]) for photo in photos])
    mean = features.mean((0, 2, 3))
    net.cls[4].bias -= mean
    features -= mean[:, None, None]
    small = capl.down_label(labels, features.shape[2:])
    for row in range(N_BASE):
        if (small == row).any():
            net.main_proto[row] = 2.5 * capl.unit(capl.pooled(features, small == row), 0) + 0.15 * torch.randn(512)
    return net


def save_checkpoints(net, folder):
    optimizer = torch.optim.SGD(net.gamma_conv.parameters(), lr=0.01, momentum=0.9)
    state = {"module." + key: value for key, value in net.state_dict().items()}
    checkpoint = {"epoch": 3, "state_dict": state, "optimizer": optimizer.state_dict()}
    torch.save(checkpoint, folder / "zip.pth")
    torch.save(checkpoint, folder / "legacy.pth", _use_new_zipfile_serialization=False)


def make(folder, depth, size, seed):
    torch.manual_seed(seed)
    names = (MSRC / "classes.txt").read_text().split()
    base = [name for name in names if name not in NOVEL][:N_BASE]
    rows = np.full(256, capl.IGNORE, np.uint8)
    for row, name in enumerate(base + NOVEL):
        rows[names.index(name)] = row
    label_of = lambda path: rows[cv2.imread(str(MSRC / path), cv2.IMREAD_UNCHANGED)]
    lists = {split: [line.split() for line in (MSRC / f"{split}.txt").read_text().splitlines()] for split in ("train", "test")}

    some = lists["train"][::6]
    photos = torch.stack([read_image(MSRC / image, size) for image, _ in some])
    labels = torch.stack([fit_label(label_of(label), size) for _, label in some])
    net = random_model(depth, size, photos, labels)
    save_checkpoints(net, folder)

    def take(image, label):
        """Copies a photo and writes its label as an index PNG of rows."""
        name = Path(image).stem
        shutil.copy(MSRC / image, folder / f"{name}.jpg")
        cv2.imwrite(str(folder / f"{name}.png"), label_of(label))
        return name

    supports = []
    for novel in range(len(NOVEL)):
        row = N_BASE + novel
        pixels = lambda label: (label_of(label) == row).sum()
        found = [pair for pair in lists["train"] if pixels(pair[1]) > 4000 and (label_of(pair[1]) >= N_BASE).sum() - (label_of(pair[1]) == capl.IGNORE).sum() == pixels(pair[1])]
        supports += [(row, take(*pair)) for pair in found[seed % 5:seed % 5 + SHOTS]]
    queries = [take(*lists["test"][(seed + 1) * 31 * (i + 1) % len(lists["test"])]) for i in range(QUERIES)]
    images = torch.stack([read_image(folder / f"{name}.jpg", size) for _, name in supports])
    masks = torch.stack([fit_label(cv2.imread(str(folder / f"{name}.png"), cv2.IMREAD_UNCHANGED), size) for _, name in supports])
    shape = (len(NOVEL), SHOTS)
    with torch.no_grad():
        registered = net.register(images.view(*shape, *images.shape[1:]), masks.view(*shape, *masks.shape[1:]))
        logits = net.logits(torch.stack([read_image(folder / f"{name}.jpg", size) for name in queries]), registered)
    print("classes that win pixels:", logits.argmax(1).unique().tolist())
    save_file({"registered": registered, "logits": logits.contiguous()}, folder / "expected.safetensors")
    fixture = {"base": ["background", *base[1:]], "novel": NOVEL, "size": size, "supports": supports, "queries": queries}
    (folder / "fixture.json").write_text(json.dumps(fixture, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=101, choices=sorted(capl.BLOCKS))
    parser.add_argument("--size", type=int, default=137)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--keep", type=Path, help="leave the files here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.keep or Path(temporary)).resolve()
        folder.mkdir(exist_ok=True, parents=True)
        make(folder, args.depth, args.size, args.seed)
        command = ["cargo", "test", "--release", "--workspace", "--test", "it", "an_imported_checkpoint", "--",
                   "--ignored", "--nocapture"]
        subprocess.run(command, cwd=REPO, env={**os.environ, "PROTOSEG_PARITY": str(folder)}, check=True)


if __name__ == "__main__":
    main()
