"""Measures what the wheel costs beside the binary: the same images, the same files written.

    python benches/python_overhead.py [--binary target/release/protoseg] [--model M] [--images 20] [--size 473] [--runs 5]

Both programs run in turn, each as a process of its own. It prints the median of the whole process, and of the work alone:
from the moment the model is loaded to the last file. The files are compared, too.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import protoseg
from PIL import Image

WHEEL = """
import sys, time
from pathlib import Path
import protoseg
folder, out, model = sys.argv[1:4]
model = protoseg.Model.load(model)
out = Path(out) / "index"
out.mkdir(parents=True)
start = time.perf_counter()
for prediction in model.predict_many(folder):
    prediction.save(out / f"{prediction.path.stem}.png")
print(time.perf_counter() - start)
"""


def make_images(folder: Path, count: int, size: int) -> None:
    """Scenes, enlarged."""
    scenes = protoseg.Dataset("scenes")
    for place in range(count):
        image = Image.fromarray(np.asarray(scenes[place].image)).resize((size, size), Image.Resampling.BICUBIC)
        image.save(folder / f"{place:03}.png")


def run(command: list[str]) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/protoseg")
    parser.add_argument("--model", help="by default that in the box")
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--size", type=int, default=473)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()

    times: dict[str, list[float]] = {"binary": [], "wheel": [], "binary work": [], "wheel work": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = folder / "images"
        images.mkdir()
        make_images(images, args.images, args.size)
        model = args.model or str(folder / "box.safetensors")
        if not args.model:
            protoseg.Model().save(model)
        for turn in range(args.runs + 1):
            outs = [folder / f"{kind}-{turn}" for kind in ("binary", "wheel")]
            command = [args.binary, "predict", "--model", model, str(images), "-o", str(outs[0]), "--write", "index"]
            binary, _ = run(command)
            wheel, work = run([sys.executable, "-c", WHEEL, str(images), str(outs[1]), model])
            # What the binary does before its first image: it loads the model, as `info` does.
            before, _ = run([args.binary, "info", model])
            for path in outs[0].glob("index/*.png"):
                if path.read_bytes() != (outs[1] / "index" / path.name).read_bytes():
                    sys.exit(f"{path.name} differs")
            assert len(list(outs[1].glob("index/*.png"))) == args.images
            # The first turn warms the caches of the disk.
            if turn > 0:
                for kind, seconds in zip(times, (binary, wheel, binary - before, float(work))):
                    times[kind].append(seconds)
    median = {kind: statistics.median(seconds) for kind, seconds in times.items()}
    print(f"{args.images} images of {args.size} x {args.size}, median of {args.runs} runs, in seconds")
    for what, kinds in (("whole process", ("binary", "wheel")), ("work alone", ("binary work", "wheel work"))):
        own, other = (median[kind] for kind in kinds)
        print(f"{what:>14}: binary {own:.2f}, wheel {other:.2f} ({100 * (other / own - 1):+.1f} %)")


if __name__ == "__main__":
    main()
