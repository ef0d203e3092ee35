"""Loader throughput: protoseg's loader against a PyTorch DataLoader that does the same OpenCV transforms.

Both read the same 120 JPEGs of about 500 x 375 with their PNG labels (MSRC's photos enlarged into a temporary folder),
augment as the reference does (scale, rotate, blur, flip, pad and crop 473, normalise) and make
batches of 6 (float32 and labels, each in one block), with the same number of workers: threads of ours, processes of
PyTorch's. Runs alternate; medians are compared. The processor time of an image says the same on a busy machine. Memory
is measured in runs of its own: PSS (shared pages count once) and RSS, summed over processes.

needs: torch, opencv-python-headless, numpy; cargo, to build our example; MSRC in ../shared/data/msrc (or --msrc DIR)
usage: python benches/peers/loader.py [--workers 2] [--repeats 5] [--json]
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

REPO = Path(__file__).resolve().parents[2]
CROP, BATCH, IGNORE = 473, 6, 255
IMAGES, PASSES = 120, 6
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
BORDER = [mean / 255 for mean in MEAN]
MEDIANS, PEAKS = ("images_per_second", "cpu_ms_per_image"), ("peak_pss_mib", "peak_rss_mib")


def make_data(msrc, out):
    """The first photos of MSRC's training list at the size of Pascal's; a list that names each `PASSES` times."""
    pairs = [line.split() for line in (msrc / "train.txt").read_text().splitlines() if line.strip()][:IMAGES]
    for i, (image, label) in enumerate(pairs):
        image, label = cv2.imread(str(msrc / image)), cv2.imread(str(msrc / label), cv2.IMREAD_GRAYSCALE)
        size = (500, 375) if image.shape[1] >= image.shape[0] else (375, 500)
        cv2.imwrite(str(out / f"{i}.jpg"), cv2.resize(image, size, interpolation=cv2.INTER_LINEAR))
        cv2.imwrite(str(out / f"{i}.png"), cv2.resize(label, size, interpolation=cv2.INTER_NEAREST))
    lines = [f"{i}.jpg {i}.png\n" for i in range(len(pairs))] * PASSES
    (out / "list.txt").write_text("".join(lines))
    return out / "list.txt"


def augment(image, label):
    """The reference's transforms in its order, on a float32 RGB picture and an 8-bit label map."""
    scale = random.uniform(0.5, 2.0)
    image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_LINEAR)
    label = cv2.resize(label, None, fx=scale, fy=scale, interpolation=cv2.INTER_NEAREST)
    if random.random() < 0.5:
        height, width = label.shape
        matrix = cv2.getRotationMatrix2D((width / 2, height / 2), random.uniform(-10, 10), 1)
        image = cv2.warpAffine(image, matrix, (width, height), flags=cv2.INTER_LINEAR,
                               borderMode=cv2.BORDER_CONSTANT, borderValue=BORDER)
        label = cv2.warpAffine(label, matrix, (width, height), flags=cv2.INTER_NEAREST,
                               borderMode=cv2.BORDER_CONSTANT, borderValue=IGNORE)
    if random.random() < 0.5:
        image = cv2.GaussianBlur(image, (5, 5), 0)
    if random.random() < 0.5:
        image, label = cv2.flip(image, 1), cv2.flip(label, 1)
    height, width = label.shape
    down, right = max(CROP - height, 0), max(CROP - width, 0)
    if down or right:
        edges = down // 2, down - down // 2, right // 2, right - right // 2
        image = cv2.copyMakeBorder(image, *edges, cv2.BORDER_CONSTANT, value=BORDER)
        label = cv2.copyMakeBorder(label, *edges, cv2.BORDER_CONSTANT, value=IGNORE)
    height, width = label.shape
    top, left = random.randint(0, height - CROP), random.randint(0, width - CROP)
    return image[top:top + CROP, left:left + CROP], label[top:top + CROP, left:left + CROP]


def run_torch(list_file, workers):
    """One timed epoch of a DataLoader; prints what our example prints."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Pairs(Dataset):
        def __init__(self):
            lines = list_file.read_text().splitlines()
            self.pairs = [[str(list_file.parent / name) for name in line.split()] for line in lines]

        def __len__(self):
            return len(self.pairs)

        def __getitem__(self, index):
            image, label = self.pairs[index]
            image = np.float32(cv2.cvtColor(cv2.imread(image, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB))
            image, label = augment(image, cv2.imread(label, cv2.IMREAD_GRAYSCALE))
            image = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))
            for plane, mean, std in zip(image, MEAN, STD):
                plane.sub_(mean).div_(std)
            return image, torch.from_numpy(np.ascontiguousarray(label)).long()

    def start_worker(worker):
        cv2.setNumThreads(0)
        random.seed(worker)

    cv2.setNumThreads(0)
    loader = DataLoader(Pairs(), batch_size=BATCH, shuffle=True, num_workers=workers, drop_last=True,
                        persistent_workers=True, prefetch_factor=2, worker_init_fn=start_worker)
    for _ in loader:
        pass
    start, cpu, images = time.perf_counter(), cpu_seconds(), 0
    for image, _ in loader:
        images += len(image)
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    print(json.dumps({"images": images, "seconds": seconds, "images_per_second": images / seconds,
                      "cpu_ms_per_image": 1000 * cpu / images}))


def processes(root):
    """A process and all below it."""
    found = [root]
    for pid in found:
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            pass
    return found


def cpu_seconds():
    """Processor time of this process and all below it, so far."""
    ticks = 0
    for pid in processes(os.getpid()):
        # The name, in brackets, may hold blanks; user and system time are fields 14 and 15, counted from 1.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(root):
    """(PSS, RSS) in MiB, summed over a process and all below it."""
    total = {"Pss:": 0, "Rss:": 0}
    for pid in processes(root):
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                words = line.split()
                if words[0] in total:
                    total[words[0]] += int(words[1]) / 1024
        except OSError:
            pass
    return total["Pss:"], total["Rss:"]


def run(command, watch=False):
    """A run's report, with its peak memory if watched."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = [0.0, 0.0]
    while watch and process.poll() is None:
        peak = [max(pair) for pair in zip(peak, memory(process.pid))]
        time.sleep(0.05)
    out, _ = process.communicate()
    if process.returncode:
        sys.exit(f"{command} failed")
    return json.loads(out) | ({"peak_pss_mib": peak[0], "peak_rss_mib": peak[1]} if watch else {})


def build():
    """Our example, built; its path."""
    command = ["cargo", "build", "--release", "-p", "protoseg-data", "--example", "loader_speed",
               "--message-format", "json-render-diagnostics"]
    lines = subprocess.run(command, cwd=REPO, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return next(m["executable"] for m in map(json.loads, lines)
                if m.get("executable") and m["target"]["name"] == "loader_speed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--msrc", type=Path, default=REPO.parent / "shared/data/msrc")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--torch", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch:
        return run_torch(args.torch, args.workers)

    ours = build()
    with tempfile.TemporaryDirectory() as folder:
        data = make_data(args.msrc, Path(folder))
        commands = {"protoseg": [ours, str(data), str(args.workers)],
                    "torch": [sys.executable, __file__, "--torch", str(data), "--workers", str(args.workers)]}
        runs = []
        for repeat in range(args.repeats):
            runs.append({name: run(command) for name, command in commands.items()} | {"load": os.getloadavg()[0]})
            if not args.json:
                speeds = (f"{name} {runs[-1][name]['images_per_second']:6.1f}" for name in commands)
                print(f"run {repeat + 1}: {', '.join(speeds)} images/s, load {runs[-1]['load']:.1f}", flush=True)
        watched = {name: run(command, watch=True) for name, command in commands.items()}

    report = {"schema": "protoseg.loader-peers.v1", "workers": args.workers, "cpus": os.cpu_count(), "runs": runs}
    for name in commands:
        report[name] = {key: statistics.median(run[name][key] for run in runs) for key in MEDIANS}
        report[name] |= {key: watched[name][key] for key in PEAKS}
    report["ratio"] = report["protoseg"]["images_per_second"] / report["torch"]["images_per_second"]
    if args.json:
        return print(json.dumps(report))
    print(f"medians of {args.repeats} runs, {args.workers} workers each, {os.cpu_count()} CPUs")
    print(f"{'':10}{'images/s':>10}{'CPU ms/image':>14}{'PSS MiB':>10}{'RSS MiB':>10}")
    for name in commands:
        speed, cpu, pss, rss = (report[name][key] for key in MEDIANS + PEAKS)
        print(f"{name:10}{speed:10.1f}{cpu:14.2f}{pss:10.0f}{rss:10.0f}")
    print(f"protoseg makes {report['ratio']:.2f} x the images/s of torch")


if __name__ == "__main__":
    main()
