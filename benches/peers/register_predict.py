"""Registering 5 classes of 5 supports and predicting images at 473 with PSPNet-50 + CAPL: ours through the binary, PyTorch
in a process of its own, one after the other, from image files to index masks.

usage: python register_predict.py --images 100        needs cargo build --release --workspace
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

CLASSES, BASE, SHOTS, SIZE, THREADS = 21, 16, 5, 473, 2
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
OURS = pathlib.Path(__file__).parents[2] / "target/release/protoseg"


def make_files(folder, images):
    """A checkpoint, photos of noise with a bright ellipse, masks of the ellipse."""
    import numpy as np
    import torch
    from PIL import Image

    import capl

    net = capl.PSPNet(50, CLASSES, BASE, dropout=0.1)
    capl.splitmix_fill(net)
    torch.save({"state_dict": net.state_dict()}, folder / "net.pth")
    rng = np.random.default_rng(7)
    y, x = np.mgrid[0:375, 0:500]
    supports = []
    for index in range((CLASSES - BASE) * SHOTS + images):
        centre, radius = rng.uniform([120, 150], [250, 350]), rng.uniform(60, 110)
        inside = ((y - centre[0]) / radius) ** 2 + ((x - centre[1]) / radius / 1.3) ** 2 < 1
        photo = rng.integers(0, 120, (24, 32, 3), dtype=np.uint8)
        photo = np.array(Image.fromarray(photo).resize((500, 375), Image.BILINEAR))
        photo[inside] = photo[inside] // 2 + 120
        kind = "support" if index < (CLASSES - BASE) * SHOTS else "query"
        (folder / kind).mkdir(exist_ok=True)
        Image.fromarray(photo).save(folder / kind / f"{index:03}.jpg", quality=92)
        if kind == "support":
            Image.fromarray((inside * 255).astype(np.uint8)).save(folder / kind / f"{index:03}_mask.png")
            supports.append({"class": f"novel{index // SHOTS}", "image": f"support/{index:03}.jpg", "mask": f"support/{index:03}_mask.png"})
    (folder / "supports.json").write_text(json.dumps(supports))


def pytorch(folder):
    import numpy as np
    import resource
    import torch
    from PIL import Image

    import capl

    torch.set_num_threads(THREADS)
    net = capl.PSPNet(50, CLASSES, BASE, dropout=0.1)
    net.load_state_dict(torch.load(folder / "net.pth")["state_dict"])
    net.eval()

    def canvas(path):
        photo = Image.open(path).convert("RGB")
        scale = SIZE / max(photo.size)
        width, height = (int(side * scale) // 8 * 8 for side in photo.size)
        image = np.zeros((SIZE, SIZE, 3), np.float32)
        image[:height, :width] = np.asarray(photo.resize((width, height), Image.BILINEAR))
        return torch.from_numpy(((image - MEAN) / STD).astype(np.float32).transpose(2, 0, 1)), photo.size, (width, height)

    with torch.inference_mode():
        started = time.perf_counter()
        supports = json.loads((folder / "supports.json").read_text())
        rows = net.main_proto.detach().clone()
        for first in range(0, len(supports), SHOTS):
            features, masks = [], []
            for support in supports[first:first + SHOTS]:
                image, _, (width, height) = canvas(folder / support["image"])
                features.append(net.features(image[None]))
                mask = Image.open(folder / support["mask"]).resize((width, height), Image.NEAREST)
                label = np.zeros((SIZE, SIZE), np.uint8)
                label[:height, :width] = np.asarray(mask)
                masks.append(capl.down_label(torch.from_numpy(label)[None], features[-1].shape[2:]) > 0)
            rows[BASE + first // SHOTS] = capl.pooled(torch.cat(features), torch.cat(masks))
        rows = capl.unit(rows, 1)
        registered = time.perf_counter()
        (folder / "torch").mkdir(exist_ok=True)
        queries = sorted((folder / "query").glob("*.jpg"))
        for path in queries:
            image, (width, height), (inner_width, inner_height) = canvas(path)
            logits = net.logits(image[None], rows)[:, :, :inner_height, :inner_width]
            logits = torch.nn.functional.interpolate(logits, (height, width), mode="bilinear", align_corners=False)
            Image.fromarray(logits.argmax(1)[0].byte().numpy()).save(folder / "torch" / f"{path.stem}.png")
        done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"register {registered - started:.2f} predict {done - registered:.2f} peak {peak}")


def timed(command):
    """Wall time, and the peak memory in MiB that the system saw."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out, _ = process.communicate()
    if process.returncode:
        sys.exit(out)
    return time.perf_counter() - started, out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--pytorch", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.pytorch:
        return pytorch(args.pytorch)
    os.environ["RAYON_NUM_THREADS"] = str(THREADS)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make_files(folder, args.images)
        model, pack = folder / "model.safetensors", folder / "novel.pack"
        names = lambda word, first, last: ",".join(f"{word}{index}" for index in range(first, last))
        timed([OURS, "import", folder / "net.pth", "--size", str(SIZE), "-o", model,
               "--base", names("base", 0, BASE), "--novel", names("novel", 0, CLASSES - BASE)])
        register, _ = timed([OURS, "register", "--model", model, "--supports", folder / "supports.json", "-o", pack, "--preset", "reference"])
        predict, out = timed([OURS, "predict", "--model", model, "--pack", pack, folder / "query", "-o", folder / "ours",
                              "--write", "index", "--preset", "reference", "--json"])
        ours = json.loads(out)
        _, out = timed([sys.executable, __file__, "--pytorch", folder])
        theirs = re.search(r"register ([\d.]+) predict ([\d.]+) peak (\d+)", out)
        theirs = [float(value) for value in theirs.groups()]

        import numpy as np
        from PIL import Image
        read = lambda kind, name: np.asarray(Image.open(folder / kind / name))
        same = [(read("ours/index", path.name) == read("torch", path.name)).mean() for path in sorted((folder / "torch").iterdir())]
    supports = (CLASSES - BASE) * SHOTS
    print(f"{supports} supports and {args.images} images at {SIZE}, PSPNet-50, {THREADS} threads; {100 * np.mean(same):.2f} % of the pixels get the same class")
    print(f"register: ours {register:.1f} s (with start, checks and pack file), PyTorch {theirs[0]:.1f} s, {theirs[0] / register:.2f} x")
    print(f"predict:  ours {predict:.1f} s (with start), PyTorch {theirs[1]:.1f} s, {theirs[1] / predict:.2f} x")
    network = sum(image["seconds"] for image in ours["images"]) / args.images
    first = predict - sum(image["seconds"] for image in ours["images"])
    print(f"ours: {network:.2f} s an image in the network; all else, start included, {first:.2f} s")
    print(f"peak memory: ours {ours['peak_memory'] / 2**20:.0f} MiB, PyTorch {theirs[2]:.0f} MiB")


if __name__ == "__main__":
    main()
