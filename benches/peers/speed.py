"""Inference beside PyTorch, ONNX Runtime and OpenVINO: the same network and weights, from a normalised image to its label map
(features, DQCE, scores, bilinear upsampling, argmax), 2 threads, rounds in which everybody runs once, medians. Of
`efficientnet-lite0` it is the encoder alone: from a normalised image to its last map.

usage: python speed.py --networks pspnet50,deeplabv3-50,efficientnet-lite0 --size 473 --rounds 5 --runs 3
       (speed.sh makes all it needs)

A round is a process of its own for each; its first image is not counted. Before anything is timed, the scores that protoseg
gives on a picture of noise are compared with PyTorch's. PROTOSEG names another binary than the one of this tree.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import memory

CLASSES, BASE, THREADS = 21, 16, 2
ENCODER = "efficientnet-lite0"
OURS = os.environ.get("PROTOSEG", pathlib.Path(__file__).parents[2] / "target/release/protoseg")
PEERS = ["PyTorch eager", "PyTorch channels-last", "PyTorch compiled", "ONNX Runtime", "OpenVINO"]


def mean_and_std(network):
    return ([127.0] * 3, [128.0] * 3) if network == ENCODER else ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375])


def build(network):
    """The network and its whole work on an image."""
    import torch

    import capl

    if network == ENCODER:
        import efficientnet_lite

        net = efficientnet_lite.EfficientNetLite0(CLASSES)
        capl.splitmix_fill(net)
        return net.eval(), net.eval()
    net = {"pspnet50": capl.PSPNet, "deeplabv3-50": capl.DeepLabV3}[network](50, CLASSES, BASE)
    capl.splitmix_fill(net)

    class Labels(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, image):
            return net.logits(image, net.main_proto).argmax(1)

    return net.eval(), Labels().eval()


# ---- the same weights as a protoseg model (docs/formats.md)
def our_name(name):
    """Of a tensor of capl.py; None where protoseg has no such tensor."""
    stem = {"0": "0.conv", "1": "0.bn", "3": "1.conv", "4": "1.bn", "6": "2.conv", "7": "2.bn"}
    head = {"0": "conv.conv", "1": "conv.bn", "4": "out"}
    pair = {"0": "conv", "1": "bn"}
    first, *rest = name.split(".")
    if rest and rest[-1] == "num_batches_tracked":
        return None
    if first == "layer0":
        return ".".join(["encoder.stem", stem[rest[0]], rest[1]])
    if first.startswith("layer"):
        if rest[1] == "downsample":
            rest[2] = pair[rest[2]]
        return ".".join(["encoder", first, *rest])
    if first == "ppm":
        return ".".join(["decoder.ppm.branches", rest[1], {"1": "conv", "2": "bn"}[rest[2]], rest[3]])
    if first == "aspp":
        branch = {"0": "point", "1": "atrous.0", "2": "atrous.1", "3": "atrous.2"}[rest[1]] if rest[0] == "branches" else "pool"
        return ".".join(["decoder.aspp", branch, pair[rest[-2]], rest[-1]])
    if first == "merge":
        return ".".join(["decoder.merge", pair[rest[0]], rest[1]])
    if first in ("cls", "aux"):
        return ".".join([{"cls": "decoder.projector", "aux": "aux_head"}[first], head[rest[0]], rest[1]])
    if first == "gamma_conv":
        return {"0.weight": "gamma_support.hidden", "2.weight": "gamma_support.out", "2.bias": "gamma_support.bias"}[".".join(rest)]
    return {"main_proto": "classifier", "aux_proto": "aux_classifier"}[name]


def write_model(net, network, size, path):
    from safetensors.torch import save_file

    alone = network == ENCODER
    encoder = {"kind": "resnet", "depth": 50, "stem": "deep", "stride_on": "3x3", "output_stride": 8, "width": 1.0}
    if alone:
        encoder = {"kind": "efficientnetlite", "variant": 0, "output_stride": 32}
    mean, std = mean_and_std(network)
    names = [{"name": f"class {row}", "role": "base" if row < BASE else "novel"} for row in range(CLASSES)]
    options = {"query_gate_weighs": "query", "query_gate_clamp": True, "fusion": "raw", "shot_mean": "pooled",
               "context_pool": "per-class", "normalise": "reference", "background": "first-row", "fake_support": "ceil",
               "loss": {"full": 0.5, "sce_only": 0.5, "aux": 0.4}, "novel_rows": True}
    # The encoder alone comes without the network of a gate.
    manifest = {"format": 1, "classes": names, "method": "dqce-cos" if alone else "capl", "options": options,
                "network": {"encoder": encoder, "decoder": "none" if alone else network.split("50")[0].rstrip("-"),
                            "dim": 320 if alone else 512, "dropout": 0.1, "aux_head": not alone, "support_mlp": not alone,
                            "query_mlp": False, "rows": CLASSES},
                "preprocess": {"size": size, "mean": mean, "std": std}, "training": {"origin": "numbers from names (capl.py)"}}
    from efficientnet_lite import our_name as encoder_name

    rename = encoder_name if alone else our_name
    tensors = {rename(name): tensor.contiguous() for name, tensor in net.state_dict().items() if rename(name)}
    save_file(tensors, path, metadata={"protoseg": json.dumps(manifest)})


def check(net, network, size, folder):
    """Base scores of a picture of noise, without DQCE: ours against PyTorch's."""
    import capl
    import numpy as np
    import torch
    from PIL import Image
    from safetensors.torch import load_file

    # A picture that fits the canvas as it is: its side a multiple of 8, the rest of the canvas black.
    side = size // 8 * 8
    noise = np.zeros((size, size, 3), np.uint8)
    noise[:side, :side] = np.random.default_rng(3).integers(0, 255, (side, side, 3))
    Image.fromarray(noise[:side, :side]).save(folder / "noise.png")
    command = [OURS, "predict", "--model", folder / "model.safetensors", folder / "noise.png", "-o", folder / "out",
               "--logits", folder / "scores.safetensors", "--no-dqce"]
    subprocess.run(command, check=True, capture_output=True)
    ours = next(iter(load_file(folder / "scores.safetensors").values()))
    mean, std = map(np.array, mean_and_std(network))
    image = torch.from_numpy(((noise - mean) / std).astype(np.float32).transpose(2, 0, 1))[None]
    with torch.inference_mode():
        scores = capl.score(net.features(image), net.main_proto[:BASE])
        theirs = torch.nn.functional.interpolate(scores, (size, size), mode="bilinear", align_corners=True)[0]
    worst = (ours[:BASE] - theirs).abs().max().item()
    print(f"largest difference of a score from PyTorch's: {worst:.1e} (scores reach {theirs.abs().max():.1f})", flush=True)
    return worst


# ---- one peer in a process of its own
def runner(peer, network, image, onnx):
    """A function that runs a peer once: a PyTorch module that `network` makes, or the same as an ONNX file."""
    if peer.startswith("PyTorch"):
        import torch

        torch.set_num_threads(THREADS)
        whole, tensor = network(), torch.from_numpy(image)
        if peer.endswith("channels-last"):
            whole, tensor = whole.to(memory_format=torch.channels_last), tensor.to(memory_format=torch.channels_last)
        if peer.endswith("compiled"):
            whole = torch.compile(whole)

        def run():
            with torch.inference_mode():
                return whole(tensor).numpy()
    elif peer == "ONNX Runtime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        session = onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])

        def run():
            return session.run(None, {session.get_inputs()[0].name: image})[0]
    else:
        import openvino

        compiled = openvino.Core().compile_model(onnx, "CPU", {"INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": "f32"})

        def run():
            return compiled([image])[0]
    return run


def report(run, runs):
    """Times a peer, the first run aside, and prints what it took."""
    times = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        out = run()
        times.append(1e3 * (time.perf_counter() - started))
    peak = memory.peak()
    print(json.dumps({"median_ms": statistics.median(times[1:]), "peak_memory_bytes": peak, "sum": float(out.sum())}))


def take_turns(title, commands, rounds, milliseconds):
    """Runs every command once in each round, every second round in reverse order, and prints a table. A command prints JSON;
    `milliseconds` takes the time that counts from it. A peer that does not work is left out."""
    # A thread that spins while it waits would slow the others' start.
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE", "RAYON_NUM_THREADS": str(THREADS)}
    answers = {name: [] for name in commands}
    for index in range(rounds):
        for name in list(answers)[::1 if index % 2 == 0 else -1]:
            answer = subprocess.run(commands[name], capture_output=True, text=True, env=environment)
            if answer.returncode:
                problem = f"{name} does not work: {(answer.stderr.strip().splitlines() or ['?'])[-1]}"
                if name == "protoseg":
                    sys.exit(problem)
                print(problem, flush=True)
                del answers[name]
                continue
            answers[name].append(json.loads(answer.stdout[answer.stdout.index("{"):]))
        line = ", ".join(f"{name} {milliseconds(values[-1]):.1f}" for name, values in answers.items())
        print(f"round {index + 1}: {line} ms", flush=True)
    print(f"\n{title}\n{'':24} {'ms':>7} {'x protoseg':>11} {'least and most':>15} {'MiB':>6}")
    for name, values in answers.items():
        ratios = sorted(milliseconds(value) / milliseconds(own) for value, own in zip(values, answers["protoseg"]))
        print(f"{name:24} {statistics.median(map(milliseconds, values)):7.1f} {statistics.median(ratios):11.2f} "
              f"{ratios[0]:7.2f} {ratios[-1]:7.2f} {max(value['peak_memory_bytes'] for value in values) / 2**20:6.0f}", flush=True)


def worker(args):
    import numpy as np

    image = np.random.default_rng(5).standard_normal((1, 3, args.size, args.size), dtype=np.float32)
    report(runner(args.worker, lambda: build(args.networks)[1], image, str(args.folder / "net.onnx")), args.runs)


def measure(args, network, folder):
    import torch

    net, whole = build(network)
    write_model(net, network, args.size, folder / "model.safetensors")
    image = torch.randn(1, 3, args.size, args.size)
    torch.onnx.export(whole, (image,), str(folder / "net.onnx"), dynamo=True, external_data=True)
    worst = check(net, network, args.size, folder)
    assert worst < 1e-2, "these are not the same networks"
    del net, whole

    commands = {"protoseg": [OURS, "bench", "inference", "--model", folder / "model.safetensors", "--classes", str(CLASSES),
                             "--runs", str(args.runs), "--json"]}
    for peer in PEERS:
        commands[peer] = [sys.executable, __file__, "--worker", peer, "--networks", network, "--size", str(args.size),
                          "--runs", str(args.runs), "--folder", folder]
    # Of the encoder alone, the features are all.
    part = "features_ms" if network == ENCODER else "median_ms"
    title = f"{network} at {args.size}, batch 1, {THREADS} threads, medians of {args.rounds} rounds of {args.runs} images"
    take_turns(title, commands, args.rounds, lambda answer: answer.get(part, answer["median_ms"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", default="pspnet50,deeplabv3-50,efficientnet-lite0")
    parser.add_argument("--size", type=int, default=473)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--worker", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(args)
    print(f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} CPUs")
    for network in args.networks.split(","):
        with tempfile.TemporaryDirectory() as folder:
            measure(args, network, pathlib.Path(folder))


if __name__ == "__main__":
    main()
