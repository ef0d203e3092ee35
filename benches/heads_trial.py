"""What else could be done with whitened prototypes: ideas of later work, tried on the features of `protoseg experiment heads`.

usage: pip install numpy pillow blake3
       python heads_trial.py DATA WORK [--fold 0,1,2] [--protoseg target/release/protoseg]

DATA is a folder of images, labels, classes.txt, folds.txt, train.txt and test.txt. Features are computed by protoseg and
kept in WORK: of the images, of the same images mirrored, and at a larger canvas. Each line is one change to the first one;
all have the image prior. Base / novel / total mIoU in % on every second test image, mean over three draws of supports. The
first line differs a little from the program's own scores: labels are brought to the grid of the features in a simpler way.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import blake3
import numpy as np
from PIL import Image, ImageOps

SEEDS = [123, 321, 456]
SHOTS = [1, 5]
SCALE, SHRINKAGE, BACKGROUND_ROWS = 20.0, 3.0, 32
LARGER = 640
EVERY = 2  # of the test images

# Made and evaluated on all folds, every image is looked at and its features are kept.
EXPERIMENT = """
title = "Features"
task = "gfs-seg"
shots = [1]
support_seeds = [123]
[models.prototypes]
new = {{ novel_pixels = "ignore", background_rows = 1, size = {size} }}
[[rows]]
name = "prototypes"
model = "prototypes"
use = "cosine"
"""


class Store:
    """Features that protoseg has kept for a data set at one canvas."""

    def __init__(self, program, data, work, size):
        self.data, self.name = data, data.name
        work.mkdir(parents=True, exist_ok=True)
        declaration = work / f"features-{size}.toml"
        declaration.write_text(EXPERIMENT.format(size=size))
        cache = work / f"features-{size}"
        subprocess.run([program, "experiment", declaration, "--data", data, "-o", work / f"run-{size}",
                        "--cache", cache], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (self.folder,) = cache.iterdir()
        self.version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]

    def read(self, sample):
        """`[height, width, channels]`, by the name that the program gives to an image's features."""
        file = (self.data / sample).stat()
        name = blake3.blake3()
        for part in (self.name.encode(), b"\0", sample.encode(), self.version.encode(),
                     file.st_size.to_bytes(8, "little"), file.st_mtime_ns.to_bytes(16, "little")):
            name.update(part)
        packed = (self.folder / f"{name.hexdigest()[:32]}.f16").read_bytes()
        channels, height, width = np.frombuffer(packed, "<u4", 3, 4)
        values = np.frombuffer(packed, "<f2", -1, 20).reshape(channels, height * width)
        return values.T.astype(np.float32), (int(height), int(width))


def mirrored(data, work):
    """A copy of the data set with every image and label mirrored."""
    copy = work / "mirrored" / data.name
    if not (copy / "test.txt").exists():
        for folder in ("images", "labels"):
            (copy / folder).mkdir(parents=True, exist_ok=True)
        for split in ("train.txt", "test.txt"):
            lines = []
            for line in (data / split).read_text().split("\n"):
                if line:
                    image, label = line.split()
                    to = str(pathlib.Path(image).with_suffix(".png"))
                    ImageOps.mirror(Image.open(data / image).convert("RGB")).save(copy / to, compress_level=1)
                    ImageOps.mirror(Image.open(data / label)).save(copy / label)
                    lines.append(f"{to} {label}")
            (copy / split).write_text("\n".join(lines) + "\n")
        for text in ("classes.txt", "folds.txt"):
            (copy / text).write_text((data / text).read_text())
    return copy


class DataSet:
    def __init__(self, data):
        self.folder = data
        self.classes = (data / "classes.txt").read_text().split()
        self.folds = [line.split() for line in (data / "folds.txt").read_text().split("\n") if line]
        self.has_background = self.classes[0] == "background"
        self.splits = {}
        self.labels = {}
        for split in ("train", "test"):
            pairs = [line.split() for line in (data / f"{split}.txt").read_text().split("\n") if line]
            self.splits[split] = [image for image, _ in pairs]
            for image, label in pairs:
                self.labels[image] = np.array(Image.open(data / label))

    def on_grid(self, sample, grid):
        """The label in the middle of each cell."""
        label = self.labels[sample]
        rows, columns = (((np.arange(n) + 0.5) * side / n).astype(int) for n, side in zip(grid, label.shape))
        return label[rows][:, columns].reshape(-1)


def supports(program, data, fold, shots, seed):
    command = [program, "data", "supports", data, "--fold", str(fold), "--shots", str(shots), "--seed", str(seed)]
    drawn = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {entry["class"]: entry["samples"] for entry in drawn["classes"]}


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


def kmeans(points, count, rng, rounds=12):
    rows = points[rng.choice(len(points), count, replace=len(points) < count)]
    for _ in range(rounds):
        nearest = (points @ rows.T).argmax(1)
        for group in range(count):
            if (nearest == group).any():
                rows[group] = points[nearest == group].mean(0)
        rows = unit(rows)
    return rows


def resize(length, cells):
    """Bilinear weights `[length, cells]`, centres on centres."""
    place = np.clip((np.arange(length) + 0.5) * cells / length - 0.5, 0, cells - 1)
    low = np.minimum(place.astype(int), cells - 1)
    high = np.minimum(low + 1, cells - 1)
    weights = np.zeros((length, cells), np.float32)
    weights[np.arange(length), low] += 1 - (place - low)
    weights[np.arange(length), high] += place - low
    return weights


def enlarge(scores, grid, shape):
    maps = scores.reshape(*grid, -1)
    across = np.tensordot(resize(shape[0], grid[0]), maps, (1, 0))
    return np.tensordot(across, resize(shape[1], grid[1]), (1, 1)).transpose(0, 2, 1)


def add_prior(scores, background):
    """The program's image prior, `image_prior.rs`."""
    likely = np.exp(scores - scores.max(1, keepdims=True))
    prior = np.ones(scores.shape[1], np.float32)
    for _ in range(5):
        weighted = likely * prior
        prior = (weighted / weighted.sum(1, keepdims=True)).mean(0) + 1e-4
        if background is not None:
            things = np.delete(prior, background)
            prior = prior / max(things.max(), 1e-4)
            prior[background] = 1
    return scores + np.log(prior)


class Fold:
    """Base classes of a fold in their whitened space."""

    def __init__(self, data, moments, fold, background_pixels):
        counts, sums, squares = moments
        novel = data.folds[fold]
        self.base = [i for i, name in enumerate(data.classes) if name not in novel]
        self.novel = [data.classes.index(name) for name in novel]
        self.rows_of = self.base + self.novel
        means = sums[self.base] / counts[self.base, None]
        within = np.mean([squares[c] / counts[c] - np.outer(mean, mean) for c, mean in zip(self.base, means)], 0)
        self.mixed = within + SHRINKAGE * np.diag(within).mean() * np.eye(len(within))
        self.space = np.linalg.cholesky(np.linalg.inv(self.mixed)).astype(np.float32)
        self.centre = means.mean(0).astype(np.float32)
        self.means = means
        rows = self.whiten(means.astype(np.float32))
        self.base_rows = [row[None] for row in rows]
        self.background = 0 if data.has_background else None
        if data.has_background:
            points = self.whiten(background_pixels)
            self.base_rows[0] = kmeans(points, BACKGROUND_ROWS, np.random.default_rng(1))

    def whiten(self, features):
        return unit((features - self.centre) @ self.space)


def best_of(unit_features, groups):
    """The best cosine with the rows of each class."""
    stacked = unit_features @ np.concatenate(groups).T
    scores, at = np.empty((len(unit_features), len(groups)), np.float32), 0
    for i, rows in enumerate(groups):
        scores[:, i] = stacked[:, at:at + len(rows)].max(1)
        at += len(rows)
    return SCALE * scores


def class_iou(confusion, order):
    hit = np.diag(confusion)
    union = confusion.sum(0) + confusion.sum(1) - hit
    return 100 * hit[order] / np.maximum(union[order], 1)


def iou(confusion, order, n_base):
    each = class_iou(confusion, order)
    return np.array([each[:n_base].mean(), each[n_base:].mean(), each.mean()])


class Trial:
    def __init__(self, data, fold, tests, program, stores):
        self.data, self.fold, self.tests, self.program, self.stores = data, fold, tests, program, stores

    def score(self, scorer):
        """mIoU of `scorer(test image) -> list of (scores, grid)`, averaged after enlarging."""
        n = len(self.data.classes)
        confusion = np.zeros((n, n), np.int64)
        order = np.array(self.fold.rows_of)
        for test in self.tests:
            shape = self.data.labels[test["name"]].shape
            maps = [enlarge(add_prior(scores, self.fold.background), grid, shape) for scores, grid in scorer(test)]
            answer = order[np.mean(maps, 0).argmax(-1)]
            truth = self.data.labels[test["name"]]
            judged = truth != 255
            confusion += np.bincount(truth[judged].astype(np.int64) * n + answer[judged], minlength=n * n).reshape(n, n)
        return iou(confusion, order, len(self.fold.base))

    def pixels(self, drawn, name, store):
        """Features of a class's pixels in its supports."""
        own = self.data.classes.index(name)
        found = []
        for sample in drawn[name]:
            path = sample if store.data == self.data.folder else str(pathlib.Path(sample).with_suffix(".png"))
            features, grid = store.read(path)
            label = self.data.labels[sample]
            if store.data != self.data.folder:
                label = label[:, ::-1]
            rows, columns = (((np.arange(n) + 0.5) * side / n).astype(int) for n, side in zip(grid, label.shape))
            found.append(features[label[rows][:, columns].reshape(-1) == own])
        return np.concatenate(found)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", type=pathlib.Path)
    arguments.add_argument("work", type=pathlib.Path)
    arguments.add_argument("--fold", default="0,1,2")
    arguments.add_argument("--protoseg", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "target/release/protoseg")
    args = arguments.parse_args()
    args.data = args.data.resolve()
    program = args.protoseg.resolve()
    data = DataSet(args.data)
    plain = Store(program, args.data, args.work, 480)
    mirror = Store(program, mirrored(args.data, args.work), args.work / "mirrored", 480)
    large = Store(program, args.data, args.work, LARGER)

    channels = plain.read(data.splits["train"][0])[0].shape[1]
    n = len(data.classes)
    counts, sums, squares = np.zeros(n), np.zeros((n, channels)), np.zeros((n, channels, channels))
    background_pixels, rng = [], np.random.default_rng(7)
    for sample in data.splits["train"]:
        features, grid = plain.read(sample)
        label = data.on_grid(sample, grid)
        for c in np.unique(label[label != 255]):
            own = features[label == c]
            counts[c] += len(own)
            sums[c] += own.sum(0)
            squares[c] += own.T @ own
        if data.has_background:
            own = features[label == 0]
            background_pixels.append(own[rng.choice(len(own), min(40, len(own)), replace=False)])
    background_pixels = np.concatenate(background_pixels) if background_pixels else None

    for place in map(int, args.fold.split(",")):
        fold = Fold(data, (counts, sums, squares), place, background_pixels)
        tests = []
        for sample in data.splits["test"][::EVERY]:
            test = {"name": sample}
            for key, store, path in (("plain", plain, sample), ("mirror", mirror, str(pathlib.Path(sample).with_suffix(".png"))),
                                     ("large", large, sample)):
                features, grid = store.read(path)
                test[key] = (fold.whiten(features).astype(np.float16), grid)
            test["raw"] = plain.read(sample)[0].astype(np.float16)
            test["base"] = best_of(test["plain"][0].astype(np.float32), fold.base_rows).argmax(1)
            tests.append(test)
        trial = Trial(data, fold, tests, program, (plain, mirror, large))
        for shots in SHOTS:
            results = {}
            for seed in SEEDS:
                drawn = supports(program, args.data, place, shots, seed)
                for name, result in variants(trial, drawn, shots, seed, (counts, sums, squares)):
                    results.setdefault(name, []).append(result)
            for name, draws in results.items():
                base, novel, total = np.mean(draws, 0)
                print(f"| {place} | {shots} | {name} | {base:.1f} / {novel:.1f} / {total:.1f} ±{np.std([d[2] for d in draws]):.1f} |")
                sys.stdout.flush()


def variants(trial, drawn, shots, seed, moments):
    """Every idea with its result on one draw."""
    data, fold, (plain, mirror, large) = trial.data, trial.fold, trial.stores
    names = [data.classes[c] for c in fold.novel]
    pixels = [trial.pixels(drawn, name, plain) for name in names]
    mean_row = lambda found: fold.whiten(found.mean(0, keepdims=True))
    rows = [mean_row(found) for found in pixels]
    groups = fold.base_rows + rows

    def cosines(groups, key="plain"):
        return lambda test: [(best_of(test[key][0].astype(np.float32), groups), test[key][1])]

    yield "whitened prototypes, image prior: the program's", trial.score(cosines(groups))

    base = np.concatenate(fold.base_rows)
    basis = np.linalg.qr(base.T)[0]
    yield "novel rows orthogonal to the base rows (POP)", trial.score(
        cosines(fold.base_rows + [unit(row - (row @ basis) @ basis.T) for row in rows]))

    rng = np.random.default_rng(seed)
    yield "three rows per novel class", trial.score(
        cosines(fold.base_rows + [kmeans(fold.whiten(found), 3, rng) for found in pixels]))

    offset = calibrate(trial, shots, seed)
    shift = np.array([0.0] * len(fold.base) + [offset] * len(fold.novel), np.float32)
    yield "offset of novel scores, found on base classes", trial.score(
        lambda test: [(best_of(test["plain"][0].astype(np.float32), groups) + shift, test["plain"][1])])

    # Which base classes the pixels of each novel class were taken for: at least a tenth of them.
    taken = []
    for found in pixels:
        answer = best_of(fold.whiten(found), fold.base_rows).argmax(1)
        taken.append(np.bincount(answer, minlength=len(fold.base)) >= 0.1 * len(found))

    def mapped(test):
        scores = best_of(test["plain"][0].astype(np.float32), groups)
        for place, allowed in enumerate(taken):
            scores[~allowed[test["base"]], len(fold.base) + place] = -SCALE
        return [(scores, test["plain"][1])]

    yield "novel only where its base classes were seen (BCM)", trial.score(mapped)

    counts, sums, squares = moments
    square = sum(squares[c] / counts[c] for c in fold.base) + sum(found.T @ found / len(found) for found in pixels)
    target = np.concatenate([sums[fold.base] / counts[fold.base, None], [found.mean(0) for found in pixels]])
    for ridge in (1.0, 10.0):
        weight = np.linalg.solve(square + ridge * np.diag(square).mean() * np.eye(len(square)), target.T).astype(np.float32)
        # Scores as large as those of the cosines, for the same prior.
        spread = np.std(trial.tests[0]["raw"].astype(np.float32) @ weight)
        factor = np.std(best_of(trial.tests[0]["plain"][0].astype(np.float32), groups)) / spread
        yield f"ridge regression, ridge {ridge:g}", trial.score(
            lambda test: [(factor * (test["raw"].astype(np.float32) @ weight), test["plain"][1])])

    both = [np.concatenate([found, trial.pixels(drawn, name, mirror)]) for found, name in zip(pixels, names)]
    yield "supports mirrored too", trial.score(cosines(fold.base_rows + [mean_row(found) for found in both]))
    both = [np.concatenate([found, trial.pixels(drawn, name, large)]) for found, name in zip(pixels, names)]
    yield "supports at a larger canvas too", trial.score(cosines(fold.base_rows + [mean_row(found) for found in both]))

    def two_views(test):
        scores = best_of(test["mirror"][0].astype(np.float32), groups)
        grid = test["mirror"][1]
        back = scores.reshape(*grid, -1)[:, ::-1].reshape(len(scores), -1)
        return cosines(groups)(test) + [(back, grid)]

    yield "queries mirrored too, scores averaged", trial.score(two_views)
    yield "queries at a larger canvas too, scores averaged", trial.score(
        lambda test: cosines(groups)(test) + cosines(groups, "large")(test))


def calibrate(trial, shots, seed):
    """What is added to novel scores: best where base classes, taught from as few supports, play the novel ones."""
    data, fold, plain = trial.data, trial.fold, trial.stores[0]
    rng = np.random.default_rng(seed)
    things = [c for c in fold.base if c != 0 or not data.has_background]
    fake = rng.choice(things, min(3, len(things)), replace=False)
    images = [data.splits["train"][i] for i in rng.permutation(len(data.splits["train"]))]
    groups = list(fold.base_rows)
    held = set()
    for c in fake:
        shown = [s for s in images if (data.labels[s] == c).sum() >= 2000][:shots]
        held.update(shown)
        found = np.concatenate([(lambda f, g: f[data.on_grid(s, g) == c])(*plain.read(s)) for s in shown])
        groups[fold.base.index(c)] = fold.whiten(found.mean(0, keepdims=True))
    queries = [s for s in images if s not in held and np.isin(data.labels[s], fake).any()][:40]
    seen = []
    for sample in queries:
        features, grid = plain.read(sample)
        seen.append((best_of(fold.whiten(features), groups), data.on_grid(sample, grid)))
    places = [fold.base.index(c) for c in fake]
    order = {c: i for i, c in enumerate(fold.base)}
    best = (-1.0, 0.0)
    for offset in np.arange(-2.0, 2.01, 0.5):
        confusion = np.zeros((len(fold.base),) * 2, np.int64)
        for scores, label in seen:
            scores = scores.copy()
            scores[:, places] += offset
            answer = add_prior(scores, fold.background).argmax(1)
            judged = np.isin(label, fold.base)
            truth = np.array([order[c] for c in label[judged]], np.int64)
            confusion += np.bincount(truth * len(fold.base) + answer[judged], minlength=confusion.size).reshape(confusion.shape)
        shown = np.nonzero(confusion.sum(1))[0]
        mean = class_iou(confusion, shown).mean()
        if mean > best[0]:
            best = (mean, offset)
    return best[1]


if __name__ == "__main__":
    main()
