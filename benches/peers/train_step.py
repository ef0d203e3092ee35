"""A training step of PSPNet with CAPL in PyTorch on the CPU, and beside ours: forward, the losses of a step, backward, SGD.

usage: python train_step.py pspnet-50 161 6 5                network, crop, batch, steps; one step more is run first
       python train_step.py pspnet-50 161 6 5 --repeats 3    both in turn, so often, and the ratios of medians; needs
                                                             cargo build --release --workspace --examples
"""
import argparse
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time

CLASSES, BASE, THREADS = 16, 16, 2
OURS = pathlib.Path(__file__).parents[2] / "target/release/examples/train_step"


def step(args):
    import torch

    import capl

    decoder, depth = args.network.split("-")
    assert decoder == "pspnet", "capl.py has PSPNet only"
    torch.set_num_threads(THREADS)
    torch.manual_seed(7)
    net = capl.PSPNet(int(depth), CLASSES, BASE, dropout=0.1)
    capl.splitmix_fill(net)
    net.train()
    encoder = [p for name, p in net.named_parameters() if name.startswith("layer")]
    rest = [p for name, p in net.named_parameters() if not name.startswith("layer")]
    optimizer = torch.optim.SGD([{"params": encoder}, {"params": rest, "lr": 0.1}], lr=0.01, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(args.batch, 3, args.crop, args.crop)
    column = torch.arange(args.crop).expand(args.batch, args.crop, args.crop)
    labels = (column // 6 + torch.arange(args.batch).view(-1, 1, 1)) % 5

    seconds, cpu = [], 0.0
    for _ in range(args.steps + 1):
        started = time.perf_counter()
        loss = net.losses(images, labels, [1, 2])[2]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - started)
        if len(seconds) == 1:
            cpu = time.process_time()
    median = statistics.median(seconds[1:])
    cpu = (time.process_time() - cpu) / args.steps
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(f"PyTorch {args.network} crop {args.crop} batch {args.batch}: {median:.3f} s a step (median of {args.steps}), "
          f"{cpu:.2f} CPU s, {args.batch / median:.2f} images/s, peak {usage.ru_maxrss // 1024} MiB")


def compare(args):
    # A thread that spins while it waits would be counted as work.
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}
    work = [args.network, str(args.crop), str(args.batch), str(args.steps)]
    commands = {"protoseg": [OURS, *work], "PyTorch": [sys.executable, __file__, *work]}
    seconds, cpus, peaks = ({name: [] for name in commands} for _ in range(3))
    for _ in range(args.repeats):
        for name, command in commands.items():
            line = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
            print(line, end="", flush=True)
            seconds[name].append(float(re.search(r"([0-9.]+) s a step", line)[1]))
            cpus[name].append(float(re.search(r"([0-9.]+) CPU s", line)[1]))
            peaks[name].append(int(re.search(r"peak ([0-9]+)", line)[1]))
    for what, values in (("seconds", seconds), ("CPU seconds", cpus), ("peak MiB", peaks)):
        ours, peer = (statistics.median(values[name]) for name in commands)
        print(f"{what:12} protoseg {ours:8.2f}   PyTorch {peer:8.2f}   PyTorch / protoseg {peer / ours:.2f}")


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
