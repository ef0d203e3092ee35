"""Files of `protoseg export` in ONNX Runtime and OpenVINO beside protoseg's own answer.

Every encoder with every decoder, every use of CAPL and of prototypes, with classes in the file and as an input. Weights are
random, but for the model in the box and the model of the demo. For each file:

- the official checker accepts it, shapes and types included;
- labels are those of protoseg but where its two best scores differ by less than 0.002, and scores differ by at most 0.001;
- a batch of two gives what the two images give one by one.

usage: python export_parity.py [--quick] [--only WORD] [--size 97] [--keep DIR]     needs cargo build --release
       python export_parity.py --speed [--rounds 5] [--runs 5]            the tables of docs/export.md

pip install onnx onnxruntime openvino numpy safetensors. PROTOSEG names another binary than the one of this tree. Ends with 1
if a file fails.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = os.environ.get("PROTOSEG", ROOT / "target/release/protoseg")
BOX = ROOT / "models/box.safetensors"
ENCODERS = ["resnet10", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg16", "mobilenetv2", "mobilenetv3-large",
            "efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "convnext-tiny", "dinov2-small",
            "dinov2-small-registers", "dinov3-vits16"]
DECODERS = ["pspnet", "pspnet-bottleneck", "deeplabv3", "fcn", "project", "none", "stages"]
USES = ["capl", "baseline", "dqce-cos", "dqce-mlp", "dqce-cos-swapped"]
OUTPUTS = ["labels", "scores", "features", "head_features"]
TIE, MOST, THREADS = 2e-3, 1e-3, 2


def protoseg(*words, may_fail=False):
    run = subprocess.run([str(OURS), *map(str, words)], capture_output=True, text=True)
    if run.returncode and not may_fail:
        sys.exit(f"protoseg {' '.join(map(str, words))}\n{run.stderr}")
    return run


# ---- models
def read(path):
    with safe_open(path, "np") as file:
        return load_file(path), json.loads(file.metadata()["protoseg"])


def write(path, tensors, manifest):
    save_file({name: np.ascontiguousarray(values) for name, values in tensors.items()}, path,
              metadata={"protoseg": json.dumps(manifest)})


def shake(tensors, rng):
    """Other statistics and biases: fresh ones are zeros and ones, which hide what is left out."""
    for name, values in tensors.items():
        if values.ndim == 1:
            noise = rng.uniform(0.5, 1.5, values.shape).astype(np.float32)
            tensors[name] = values * noise + 0.2 * (noise - 1)


def random_model(folder, decoder, encoder, size):
    """A model of this network: of CAPL, or of prototypes if its decoder joins stages."""
    path = folder / "model.safetensors"
    arch = f"{'fcn' if decoder == 'stages' else decoder}-{encoder}"
    protoseg("bench", "model", "--arch", arch, "--size", size, "-o", path, "--force")
    rng = np.random.default_rng(7)
    tensors, manifest = read(path)
    shake(tensors, rng)
    if decoder == "stages":
        tensors, manifest = joined(folder, tensors, manifest, rng)
    write(path, tensors, manifest)
    return path


def joined(folder, tensors, manifest, rng):
    """Rows on the joined maps of the same encoder, whitened, and the image prior."""
    rows = [4, 1, 1, 3]
    encoder = {name: values for name, values in tensors.items() if name.startswith("encoder.")}
    manifest["network"]["decoder"] = "stages"
    manifest["classes"] = [{"name": "background", "role": "background"},
                           *({"name": f"thing {row}", "role": "base"} for row in range(1, len(rows)))]
    manifest["method"] = {"name": "prototypes", "base_rows": rows, "has_background": True, "shrinkage": 0.1,
                          "own_groups": 0, "rest_groups": 0, "image_prior": True}
    manifest["preprocess"].update(fit="tight", grid="centres")
    probe = folder / "probe.safetensors"
    write(probe, encoder, manifest)
    refused = protoseg("info", probe, may_fail=True).stderr
    dim = int(re.search(r"`dim` must be (\d+)", refused).group(1))
    manifest["network"]["dim"] = dim
    matrix = np.eye(dim) + 0.02 * rng.standard_normal((dim, dim))
    more = {"base": rng.random((sum(rows), dim)), "whitening.centre": 0.02 * rng.random((1, dim)), "whitening.matrix": matrix}
    return {**encoder, **{name: values.astype(np.float32) for name, values in more.items()}}, manifest


def few_shot_model(folder, method, size):
    """PANet on VGG-16, or the baseline of mining latent classes, CANet, PFENet, SCL on both or HSNet on ResNet-50."""
    path = folder / "model.safetensors"
    encoder = "vgg16" if method == "panet" else "resnet50"
    protoseg("bench", "model", "--arch", f"none-{encoder}", "--size", size, "-o", path, "--force")
    tensors, manifest = read(path)
    shake(tensors, np.random.default_rng(7))
    if method == "mining":
        manifest["network"]["encoder"].update(layers=3, late_dilation=True)
        manifest["network"]["dim"] = 1024
    if method.endswith("canet"):
        manifest["network"]["encoder"].update(layers=3, stride_on="first-1x1")
        manifest["network"]["dim"] = 1024
    if method == "hsnet":
        manifest["network"]["encoder"].update(output_stride=32)
    manifest["method"] = {"name": "scl", "on": method[4:]} if method.startswith("scl") else {"name": method}
    manifest["classes"] = [{"name": "background", "role": "background"}]
    keep = {name: values for name, values in tensors.items() if name.startswith("encoder.")}
    if method == "mining" or method.endswith("canet"):
        keep = {name: values for name, values in keep.items() if not name.startswith("encoder.layer4.")}
    rng = np.random.default_rng(9)
    for name, shape in decoder_shapes(method).items():
        # Scores of the size of trained ones.
        scale = 0.0 if name.endswith("bias") else (2 / np.prod(shape[1:])) ** 0.5 * (0.01 if ".out." in name else 1.0)
        keep[name] = (scale * rng.standard_normal(shape)).astype(np.float32)
    if method.endswith("pfenet"):
        # Between what the two scores are without it, so that both classes win somewhere.
        keep["fem.cls.out.bias"] = np.array([0, 5 if method.startswith("scl") else 20], np.float32)
    write(path, keep, manifest)
    return path


def decoder_shapes(method):
    """Tensors that CANet, PFENet, SCL and HSNet add to their encoder, a ResNet-50."""
    shapes = {}

    def conv(name, to, of, kernel, bias):
        shapes[f"{name}.weight"] = (to, of, kernel, kernel)
        if bias:
            shapes[f"{name}.bias"] = (to,)

    is_scl = method.startswith("scl")
    if method.endswith("canet"):
        conv("feature.conv", 256, 1536, 3, True)
        conv("comparison.compare", 256, 768 if is_scl else 512, 3, True)
        for block in [1, 2, 3]:
            conv(f"comparison.residual{block}.first", 256, 258 if block == 1 else 256, 3, True)
            conv(f"comparison.residual{block}.second", 256, 256, 3, True)
        for branch in range(5):
            conv(f"comparison.aspp.{branch}", 256, 256, 1 if branch < 2 else 3, True)
        conv("comparison.fuse", 256, 1280, 1, True)
        conv("comparison.out", 2, 256, 1, True)
        if is_scl:
            conv("supp_residual1.first", 256, 256, 3, True)
            conv("supp_residual1.second", 256, 256, 3, True)
    if method.endswith("pfenet"):
        conv("down_query.conv", 256, 1536, 1, False)
        conv("down_supp.conv", 256, 1536, 1, False)
        for grid in range(4):
            conv(f"init_merge.{grid}", 256, 769 if is_scl else 513, 1, False)
            if is_scl:
                conv(f"supp_init_merge.{grid}", 256, 768, 1, False)
            conv(f"fem.beta_conv.{grid}.first", 256, 256, 3, False)
            conv(f"fem.beta_conv.{grid}.second", 256, 256, 3, False)
            conv(f"fem.inner_cls.{grid}.conv", 256, 256, 3, False)
            conv(f"fem.inner_cls.{grid}.out", 2, 256, 1, True)
        for grid in range(3):
            conv(f"fem.alpha_conv.{grid}", 256, 512, 1, False)
        conv("fem.res1", 256, 1024, 1, False)
        conv("fem.res2.first", 256, 256, 3, False)
        conv("fem.res2.second", 256, 256, 3, False)
        conv("fem.cls.conv", 256, 256, 3, False)
        conv("fem.cls.out", 2, 256, 1, True)
    if method == "hsnet":
        def pivot(name, of, to, kernel):
            conv(f"{name}.conv1", to, of, kernel, True)
            conv(f"{name}.conv2", to, of, kernel, True)
            shapes[f"{name}.norm.weight"] = shapes[f"{name}.norm.bias"] = (to,)

        widths = [16, 64, 128]
        for name, of, kernels in [("squeeze4", 3, (3, 3, 3)), ("squeeze3", 6, (5, 3, 3)), ("squeeze2", 4, (5, 5, 3))]:
            for i, (to, kernel) in enumerate(zip(widths, kernels)):
                pivot(f"{name}.{i}", widths[i - 1] if i else of, to, kernel)
        for name in ("mix43", "mix32"):
            for i in range(3):
                pivot(f"{name}.{i}", 128, 128, 3)
        for name, to, of in [("decoder1.0", 128, 128), ("decoder1.1", 64, 128), ("decoder2.0", 64, 64), ("decoder2.1", 2, 64)]:
            conv(name, to, of, 3, True)
    return shapes


def with_use(path, use):
    """The model as another row of CAPL's ablation table."""
    tensors, manifest = read(path)
    manifest["method"].update(row=use, query_mlp=use == "dqce-mlp")
    if use == "dqce-mlp":
        for part in ["hidden", "out", "bias"]:
            tensors[f"gamma_query.{part}"] = -tensors[f"gamma_support.{part}"]
    write(path, tensors, manifest)


def taught(folder, model=None):
    """Flags of a pack with five classes of the built-in scenes."""
    pack = folder / "taught.pack"
    for old in [pack, folder / "taught.pack.png"]:  # they may be another model's
        old.unlink(missing_ok=True)
    protoseg("register", *(["--model", model] if model else []), "--data", "scenes", "--shots", 2, "-o", pack)
    return "--pack", pack


# ---- runtimes
def onnx_runtime(path):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs)))


def openvino(path):
    import openvino as ov

    settings = {"INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    model = ov.Core().compile_model(str(path), "CPU", settings)
    # An output has the names of the values that became one with it, too.
    names = [name for output in model.outputs for name in output.get_names() if name in OUTPUTS]

    def run(inputs):
        answer = model(inputs)
        return {name: np.array(answer[name]) for name in names}

    return run


RUNTIMES = {"ONNX Runtime": onnx_runtime, "OpenVINO": openvino}


# ---- one file
def compare(sample, answer):
    """Pixels with another class, ties among them, and the largest difference of a score."""
    assert answer["labels"].dtype == np.int32 and answer["labels"].shape == sample["labels"].shape, answer["labels"].shape
    other = answer["labels"] != sample["labels"]
    best = np.sort(sample["scores"], axis=1)
    margin = best[:, -1] - best[:, -2] if best.shape[1] > 1 else np.full(other.shape, np.inf)
    return int(other.sum()), int((other & (margin < TIE)).sum()), float(np.abs(answer["scores"] - sample["scores"]).max())


def check(name, folder, model, *flags):
    """Exports a model, checks the file, and prints a line. Whether all is well."""
    import onnx

    path, sample = folder / "model.onnx", folder / "sample.safetensors"
    made = protoseg("export", *([model] if model else []), "-o", path, "--sample", sample, "--json", "--force", *flags)
    report = json.loads(made.stdout)
    onnx.checker.check_model(str(path), full_check=True)
    sample = load_file(sample)
    inputs = {key: value for key, value in sample.items() if key not in ("labels", "scores")}
    seen = len(np.unique(sample["labels"]))
    words, well = [f"{name:<40} {report['nodes']:>4} nodes, {seen} classes seen"], True
    for runtime, start in RUNTIMES.items():
        run = start(path)
        answer = run(inputs)
        different, ties, worst = compare(sample, answer)
        flipped = {**inputs, "image": inputs["image"][:, :, ::-1].copy()}
        both = run({**inputs, "image": np.concatenate([inputs["image"], flipped["image"]])})
        alone = np.concatenate([answer["scores"], run(flipped)["scores"]])
        batch = float(np.abs(both["scores"] - alone).max())
        good = different == ties and worst <= MOST and batch <= MOST
        well &= good
        words.append(f"{runtime}: {different} other labels, {ties} ties, scores {worst:.1e}, batch {batch:.1e}"
                     f"{'' if good else ' FAILED'}")
    print(" | ".join(words), flush=True)
    return well


def parity(args, folder):
    wells = []

    def want(name):
        return args.only is None or args.only in name

    for row, encoder in enumerate(ENCODERS):
        for column, decoder in enumerate(DECODERS):
            name = f"{decoder}-{encoder}"
            if want(name) and (not args.quick or row % len(DECODERS) == column):
                model = random_model(folder, decoder, encoder, 96 if decoder == "stages" else args.size)
                wells.append(check(name, folder, model, "--features"))
    for use in USES:
        for flags in [[], ["--preset", "balanced"], ["--preset", "paper"], ["--classes", "input"]]:
            name = " ".join([f"use {use}", *flags])
            if want(name):
                model = random_model(folder, "fcn", "resnet10", args.size)
                with_use(model, use)
                wells.append(check(name, folder, model, *taught(folder, model), *flags))
    for method in ["panet", "mining", "canet", "pfenet", "scl-pfenet", "scl-canet", "hsnet"]:
        if want(f"few-shot {method}"):
            wells.append(check(f"few-shot {method}", folder, few_shot_model(folder, method, args.size)))
    if want("stages input"):
        wells.append(check("stages input", folder, random_model(folder, "stages", "resnet18", 96), "--classes", "input"))
    for classes in ["baked", "input"]:
        if want(f"box {classes}"):
            wells.append(check(f"box {classes}", folder, None, *taught(folder), "--classes", classes))
        if want(f"demo {classes}"):
            demo = folder / "demo"
            if not demo.exists():
                protoseg("demo", "--quick", "--out", demo)
            wells.append(check(f"demo {classes}, taught", folder, demo / "model.safetensors", "--pack", demo / "novel.pack",
                               "--classes", classes))
            wells.append(check(f"demo {classes}", folder, demo / "model.safetensors", "--classes", classes))
    print(f"{sum(wells)} of {len(wells)} files are the same")
    return all(wells) and wells


# ---- speed
def milliseconds(run, runs):
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def speed(args, folder):
    """Medians over rounds in which everybody runs once. A run is an image on the canvas to its labels and scores."""
    pack = folder / "taught.pack"
    networks = {"PSPNet-50, 16 + 5 classes": ("pspnet", 473), "DeepLab-V3-50, 16 classes": ("deeplabv3", 473),
                "EfficientNet-Lite0 (box), 1 + 2 classes": (None, 480)}
    print(f"medians of {args.rounds} rounds of {args.runs} runs, {THREADS} threads, milliseconds per image\n")
    print(f"| network | file | protoseg | {' | '.join(RUNTIMES)} | labels that differ, ties | largest difference of a score |")
    print("|---|---|---|---|---|---|---|")
    for name, (arch, size) in networks.items():
        flags = []
        if arch is None:
            model = BOX
            taught(folder)
            keep = json.loads(protoseg("classes", "list", pack, "--json").stdout)["classes"][2:]
            protoseg("classes", "remove", pack, *(row["name"] for row in keep))
            flags = ["--pack", pack]
        else:
            model = random_model(folder, arch, "resnet50", size)
            if "16 + 5" in name:
                flags = taught(folder, model)
        path, sample = folder / "model.onnx", folder / "sample.safetensors"
        report = json.loads(protoseg("export", model, "-o", path, "--sample", sample, "--json", "--force", *flags).stdout)
        sample = load_file(sample)
        image = sample["image"]
        if arch is None:
            image = np.random.default_rng(5).integers(0, 256, (1, size, size, 3), dtype=np.uint8)
        agreements = [compare(sample, start(path)({"image": sample["image"]})) for start in RUNTIMES.values()]
        times = {who: [] for who in ["protoseg", *RUNTIMES]}
        for _ in range(args.rounds):
            classes = ["--classes", len(report["classes"])]
            ours = protoseg("bench", "inference", "--model", model, *classes, "--runs", args.runs, "--json").stdout
            times["protoseg"].append(json.loads(ours)["median_ms"])
            for who, start in RUNTIMES.items():
                run = start(path)
                times[who].append(milliseconds(lambda: run({"image": image}), args.runs))
        medians = " | ".join(f"{statistics.median(values):.0f}" for values in times.values())
        differ = "; ".join(f"{different}, {ties}" for different, ties, _ in agreements)
        worst = "; ".join(f"{worst:.0e}" for *_, worst in agreements)
        print(f"| {name} | {report['bytes'] / 1e6:.0f} MB | {medians} | {differ} | {worst} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="files whose name contains this")
    parser.add_argument("--quick", action="store_true", help="every encoder and every decoder, but not all pairs")
    parser.add_argument("--size", type=int, default=97, help="side of the canvas of random models")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the files, which is kept")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if args.speed:
            speed(args, folder)
        elif not parity(args, folder):
            sys.exit(1)


main()
