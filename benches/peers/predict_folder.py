"""A folder of photos, files to files: `protoseg predict --pack PACK FOLDER -o OUT` with the model in the box, beside what a
careful Python user would write with OpenCV and ONNX Runtime. The same photos (500 x 375), network, rows and outputs: index
masks, overlays with outline and legend, a page with thumbnails.

usage: python predict_folder.py --photos DIR --pack my.pack
       python predict_folder.py --photos DIR --supports a.jpg:a.png b.jpg:b.png        makes a pack of one class
       needs cargo build --release --workspace; PROTOSEG names another binary than the one of this tree

The Python side runs in three ways: a plain loop, with the network on 2 threads; the same with 2 more threads that read and
write beside it; or 2 photos at a time, each from file to files on a thread of its own. The four take turns. Times are of whole processes, start included. Photos of
another size are resized, those of nearly the same shape first, and repeated if they are too few.
"""
import argparse
import collections
import concurrent.futures
import html
import itertools
import json
import os
import pathlib
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

THREADS, SIZE, CANVAS, MULTIPLE, THUMBNAIL = 2, (500, 375), 480, 32, 320
COLORS = [(18, 160, 233), (233, 180, 86), (115, 158, 0), (66, 228, 240), (178, 114, 0), (0, 94, 213), (167, 121, 204)]  # BGR
ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = os.environ.get("PROTOSEG", ROOT / "target/release/protoseg")
PEERS = ["Python, a loop", "Python, pipelined", "Python, 2 at a time"]


# ---- the network with the rows of a pack, as an ONNX file
def canvas(width, height):
    """The size that the network sees: a longer side of 480, both sides multiples of 32."""
    return tuple(round(side * CANVAS / max(width, height) / MULTIPLE) * MULTIPLE for side in (width, height))


def rows_of(pack, tensors):
    """Names of the classes and the rows of each, as protoseg makes them of a pack and a model's tensors (`rows.rs`)."""
    import torch
    from safetensors import safe_open

    with safe_open(pack, "pt") as file:
        classes = json.loads(file.metadata()["protoseg-pack"])["classes"]
        clusters = iter(file.get_tensor("clusters"))
    unit = lambda rows: torch.nn.functional.normalize(rows.float() * tensors["emphasis"].float())
    take = lambda groups: list(itertools.islice(clusters, len(groups)))
    own, rest, kept = [], [], torch.full([len(tensors["base"])], True)
    for shots in (taught["shots"] for taught in classes):
        groups, lost = [(take(shot["clusters"]["own"]), take(shot["clusters"]["rest"])) for shot in shots], torch.zeros(len(kept))
        own.append(unit(torch.stack(sum((group[0] for group in groups), []))))
        rest.append(sum((group[1] for group in groups), []))
        for row, count in itertools.chain(*(shot["clusters"]["beaten_by"] for shot in shots)):
            lost[row] += count
        kept &= (lost == 0) | (lost < 0.002 * sum(shot["count"] for shot in shots))
    background = unit(tensors["base"])[kept]
    for index, rows in enumerate(rest):
        rows, others = unit(torch.stack(rows)) if rows else background[:0], own[:index] + own[index + 1:]
        if len(rows) and others:
            rows = rows[(rows @ torch.cat(others).T).amax(1) <= (rows @ background.T).amax(1)]
        background = torch.cat([background, rows])
    return ["background"] + [taught["name"] for taught in classes], [background, *own]


def export(model, pack, path):
    """From an image on the canvas to the best cosine of every class, [classes, h, w]; returns the names of the classes."""
    import torch
    from safetensors.torch import load_file

    from efficientnet_lite import Box, unit

    tensors = load_file(model)
    names, rows = rows_of(pack, tensors)

    class Scores(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.rows = Box().load(tensors), torch.nn.Buffer(torch.cat(rows))
            self.emphasis = torch.nn.Buffer(tensors["emphasis"].float().view(1, -1, 1, 1))

        def forward(self, image):
            features = unit(self.net(image) * self.emphasis)
            cosines = (self.rows @ features[0].flatten(1)).split([len(own) for own in rows])
            return torch.stack([own.amax(0) for own in cosines]).unflatten(1, features.shape[2:])

    width, height = canvas(*SIZE)
    image = torch.zeros(1, 3, height, width)
    torch.onnx.export(Scores().eval(), (image,), str(path), dynamo=True, external_data=False, verbose=False, input_names=["image"])
    print(f"{len(torch.cat(rows))} rows: {', '.join(f'{len(own)} of {name}' for name, own in zip(names, rows))}", flush=True)
    return names


# ---- the Python program
class Predictor:
    def __init__(self, net, names, out, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # A thread that spins while it waits would slow those that read and write.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(net, options, providers=["CPUExecutionProvider"])
        self.names, self.out = names, out
        for folder in ("index", "overlay", "gallery/input", "gallery/overlay"):
            (out / folder).mkdir(parents=True)

    def read(self, path):
        photo = cv2.imread(str(path))
        size = canvas(*photo.shape[1::-1])
        return photo, cv2.dnn.blobFromImage(photo, 1 / 128, size, (127, 127, 127), swapRB=True)

    def score(self, blob):
        return self.session.run(None, {"image": blob})[0]

    def write(self, path, photo, scores):
        """All files of a photo; returns the share of every class."""
        size = photo.shape[1::-1]
        planes = [cv2.resize(plane, size, interpolation=cv2.INTER_LINEAR) for plane in scores]
        labels = np.argmax(planes, 0).astype(np.uint8)
        save = lambda folder, ending, picture, *how: cv2.imwrite(str(self.out / folder / f"{path.stem}.{ending}"), picture, how)
        save("index", "png", labels)
        pixels = np.bincount(labels.ravel(), minlength=len(self.names))
        save("overlay", "png", self.legend(self.paint(photo, labels), pixels))
        scale = min(1, THUMBNAIL / max(size))
        small = tuple(round(side * scale) for side in size)
        thumbnail = cv2.resize(photo, small, interpolation=cv2.INTER_AREA)
        painted = self.paint(thumbnail, cv2.resize(labels, small, interpolation=cv2.INTER_NEAREST))
        save("gallery/input", "jpg", thumbnail, cv2.IMWRITE_JPEG_QUALITY, 88)
        save("gallery/overlay", "jpg", painted, cv2.IMWRITE_JPEG_QUALITY, 88)
        return path, pixels / labels.size

    def paint(self, photo, labels):
        painted = photo.copy()
        for row in range(1, len(self.names)):
            color, mask = COLORS[(row - 1) % len(COLORS)], cv2.compare(labels, row, cv2.CMP_EQ)
            if not cv2.countNonZero(mask):
                continue
            tinted = cv2.addWeighted(photo, 0.45, np.full_like(photo, color), 0.55, 0)
            cv2.copyTo(tinted, mask, painted)
            contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
            cv2.drawContours(painted, contours, -1, color, 1)
        return painted

    def legend(self, painted, pixels):
        rows = [row for row in range(1, len(self.names)) if pixels[row]]
        if not rows:
            return painted
        strip = np.full((24 * len(rows) + 16, painted.shape[1], 3), 255, np.uint8)
        for line, row in enumerate(rows):
            y = 24 * line + 12
            cv2.rectangle(strip, (8, y), (26, y + 15), COLORS[(row - 1) % len(COLORS)], cv2.FILLED)
            cv2.putText(strip, self.names[row], (34, y + 13), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (61, 54, 48), 1, cv2.LINE_AA)
        return cv2.vconcat([painted, strip])

    def page(self, done):
        cards = []
        for path, shares in done:
            classes = ", ".join(f"{html.escape(name)} {100 * share:.1f} %" for name, share in zip(self.names, shares) if share)
            name, file = html.escape(path.stem), html.escape(path.stem, quote=True)
            cards.append(f'<article><img loading="lazy" src="gallery/input/{file}.jpg"> <a href="overlay/{file}.png">'
                         f'<img loading="lazy" src="gallery/overlay/{file}.jpg"></a><h3>{name}</h3><p>{classes}</p></article>')
        page = f"<!doctype html><meta charset=utf-8><title>predictions</title>{''.join(cards)}"
        (self.out / "index.html").write_text(page, encoding="utf-8")

    def whole(self, path):
        photo, blob = self.read(path)
        return self.write(path, photo, self.score(blob))

    def in_turn(self, paths):
        """One photo after the other."""
        self.page([self.whole(path) for path in paths])

    def beside(self, paths):
        """The network on this thread; photos are read and written beside it, a few at a time."""
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            reading, writing, done = collections.deque(), collections.deque(), []
            ahead = iter(paths)
            for path in paths:
                reading += [pool.submit(self.read, path) for path in itertools.islice(ahead, 2 * THREADS - len(reading))]
                photo, blob = reading.popleft().result()
                writing.append(pool.submit(self.write, path, photo, self.score(blob)))
                if len(writing) > 2 * THREADS:
                    done.append(writing.popleft().result())
            self.page(done + [future.result() for future in writing])

    def at_a_time(self, paths):
        """Each photo on one thread."""
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            self.page(list(pool.map(self.whole, paths)))


def worker(args):
    started = time.perf_counter()
    global cv2, np
    import cv2
    import numpy as np

    import memory

    cv2.setNumThreads(1)
    threads = 1 if args.worker == PEERS[2] else THREADS
    net = Predictor(str(args.folder / "net.onnx"), json.loads((args.folder / "names.json").read_text()), args.out, threads)
    paths = sorted((args.folder / "photos").iterdir())
    start = time.perf_counter() - started
    dict(zip(PEERS, [net.in_turn, net.beside, net.at_a_time]))[args.worker](paths)
    print(json.dumps({"start": start, "peak_memory": memory.peak()}))


# ---- both
def make_photos(source, folder, count):
    from PIL import Image, ImageOps

    shapes = {}
    for path in sorted(path for path in source.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png")):
        with Image.open(path) as photo:
            shapes[path] = (photo.size != SIZE or photo.format != "JPEG", abs(photo.width / photo.height - SIZE[0] / SIZE[1]))
    if not shapes:
        sys.exit(f"`{source}` has no photos")
    folder.mkdir()
    chosen = sorted(shapes, key=shapes.get)[:count]
    for index, path in zip(range(count), itertools.cycle(chosen)):
        if shapes[path][0]:
            ImageOps.exif_transpose(Image.open(path)).convert("RGB").resize(SIZE, Image.BICUBIC).save(folder / f"{index:04}.jpg", quality=92)
        else:
            shutil.copy(path, folder / f"{index:04}.jpg")
    print(f"{count} photos of {SIZE[0]} x {SIZE[1]}, {len(chosen)} different ones, {sum(shapes[path][0] for path in chosen)} of them resized", flush=True)


def timed(command, out, environment):
    """Wall time, CPU time per wall time, and what it printed."""
    shutil.rmtree(out, ignore_errors=True)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    answer = subprocess.run(command, capture_output=True, text=True, env=environment)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if answer.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{answer.stderr.strip()}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used / wall, json.loads(answer.stdout[answer.stdout.index("{"):])


def agreement(ours, theirs):
    """The share of pixels with the same class."""
    import numpy as np
    from PIL import Image

    read = lambda path: np.asarray(Image.open(path))
    return 100 * np.mean([(read(path) == read(theirs / "index" / path.name)).mean() for path in sorted((ours / "index").iterdir())])


def measure(args, folder):
    photos, pack = folder / "photos", args.pack or folder / "taught.pack"
    make_photos(args.photos, photos, args.count)
    if args.supports:
        subprocess.run([OURS, "register", "--class", f"thing={','.join(args.supports)}", "-o", pack], check=True, capture_output=True)
    (folder / "names.json").write_text(json.dumps(export(args.model, pack, folder / "net.onnx")))
    outs = {"protoseg": folder / "ours"} | {peer: folder / f"theirs{index}" for index, peer in enumerate(PEERS)}
    commands = {"protoseg": [OURS, "predict", "--pack", pack, photos, "-o", outs["protoseg"], "--json"] + ["--fast"] * args.fast}
    for peer in PEERS:
        commands[peer] = [sys.executable, __file__, "--worker", peer, "--folder", folder, "--out", outs[peer]]
    environment = os.environ | {"RAYON_NUM_THREADS": str(THREADS)}
    rates, uses, answers = ({name: [] for name in commands} for _ in range(3))
    for index in range(args.rounds):
        for name in list(commands)[::1 if index % 2 == 0 else -1]:
            wall, use, answer = timed(commands[name], outs[name], environment)
            rates[name].append(args.count / wall)
            uses[name].append(use)
            answers[name].append(answer)
        line = ", ".join(f"{name} {values[-1]:.1f}" for name, values in rates.items())
        ratios = ", ".join(f"{rates['protoseg'][-1] / rates[peer][-1]:.2f}" for peer in PEERS)
        print(f"round {index + 1}: {line} images per second; {ratios} x", flush=True)

    print(f"\n{args.count} photos, {THREADS} threads, medians of {args.rounds} rounds")
    print(f"{'':20} {'images/s':>8} {'protoseg is':>12} {'least and most':>15} {'CPUs used':>10} {'MiB':>5} {'same class':>11}")
    for name, values in rates.items():
        ratios = sorted(ours / theirs for ours, theirs in zip(rates["protoseg"], values))
        peak = max(answer["peak_memory"] for answer in answers[name]) / 2**20
        print(f"{name:20} {statistics.median(values):8.1f} {statistics.median(ratios):10.2f} x {ratios[0]:7.2f} {ratios[-1]:7.2f} "
              f"{statistics.median(uses[name]):10.2f} {peak:5.0f} {agreement(outs['protoseg'], outs[name]):9.2f} %")
    for peer in PEERS:
        print(f"start of {peer}: {statistics.median(answer['start'] for answer in answers[peer]):.2f} s (modules and network)")
    print("\nprotoseg's time by part, last round, over all threads, much of it at the same time")
    for part in answers["protoseg"][-1]["timings"]:
        print(f"{part['part']:24} {1e3 * part['seconds'] / args.count:6.1f} ms per image")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=pathlib.Path, help="folder of photos")
    taught = parser.add_mutually_exclusive_group()
    taught.add_argument("--pack", type=pathlib.Path, help="pack of the model in the box")
    taught.add_argument("--supports", nargs="+", metavar="IMAGE:MASK")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/box.safetensors", help="the model in the box as a file, for Python")
    parser.add_argument("--count", type=int, default=300, help="number of photos")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fast", action="store_true", help="let protoseg multiply in 16 bits")
    parser.add_argument("--worker", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(args)
    if not args.photos or not (args.pack or args.supports):
        parser.error("--photos and either --pack or --supports are needed")
    print(f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} CPUs")
    with tempfile.TemporaryDirectory() as folder:
        measure(args, pathlib.Path(folder))


if __name__ == "__main__":
    main()
