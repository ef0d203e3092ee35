"""PFENet and HSNet on ResNet-50 beside PyTorch eager: whole episodes of random images, batch 1. All supports and the query go
through the backbone and the head, to logits of the image's size (PFENet at 473, HSNet at 400).

usage: python fsseg.py --check --golden ../../../shared/golden         is it the same network? needs the golden files
       python fsseg.py --binary ../../target/release/protoseg --rounds 3 --threads 2 --models pfenet,hsnet --shots 1,5

The modules have the names of the published checkpoints. A measurement is a process of its own, and ours and PyTorch's take
turns; the first episode of a process is not counted. The table has medians over rounds and the least ratio of any round.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import capl
import memory

SIZES = {"pfenet": 473, "hsnet": 400}
NAMES = {"pfenet": "PFENet", "hsnet": "HSNet"}
TOLERANCE = {"pfenet": 1e-3, "hsnet": 2e-4}


def resize(x, size):
    return F.interpolate(x, size, mode="bilinear", align_corners=True)


# ---- PFENet
def conv_relu(inp, out, kernel=1):
    return [nn.Conv2d(inp, out, kernel, padding=kernel // 2, bias=False), nn.ReLU(inplace=True)]


def two_way(dim):
    return nn.Sequential(*conv_relu(dim, dim, 3), nn.Dropout2d(0.1), nn.Conv2d(dim, 2, 1))


class PFENet(nn.Module):
    """Prior maps from layer4 and a feature enrichment module over the middle layers."""

    def __init__(self, bins=(60, 30, 15, 8), dim=256):
        super().__init__()
        self.bins = bins
        blocks = capl.BLOCKS[50]
        self.layer0 = capl.deep_stem()
        self.layer1 = capl.make_layer(128, 64, blocks[0], 1)
        self.layer2 = capl.make_layer(256, 128, blocks[1], 2)
        self.layer3 = capl.make_layer(512, 256, blocks[2], 2)
        self.layer4 = capl.make_layer(1024, 512, blocks[3], 2)
        capl.dilate(self.layer3, 2)
        capl.dilate(self.layer4, 4)
        middle = lambda: nn.Sequential(*conv_relu(1024 + 512, dim), nn.Dropout2d(0.5))
        self.down_query, self.down_supp = middle(), middle()
        self.init_merge = nn.ModuleList(nn.Sequential(*conv_relu(2 * dim + 1, dim)) for _ in bins)
        self.alpha_conv = nn.ModuleList(nn.Sequential(*conv_relu(2 * dim, dim)) for _ in bins[1:])
        self.beta_conv = nn.ModuleList(nn.Sequential(*conv_relu(dim, dim, 3), *conv_relu(dim, dim, 3)) for _ in bins)
        self.inner_cls = nn.ModuleList(two_way(dim) for _ in bins)           # training only
        self.res1 = nn.Sequential(*conv_relu(dim * len(bins), dim))
        self.res2 = nn.Sequential(*conv_relu(dim, dim, 3), *conv_relu(dim, dim, 3))
        self.cls = two_way(dim)

    def middle(self, image):
        x2 = self.layer2(self.layer1(self.layer0(image)))
        x3 = self.layer3(x2)
        return x3, torch.cat([x3, x2], 1)

    def prior(self, query, support):
        """query [b,c,h,w], masked support [b*k,c,h,w] -> [b,1,h,w], the mean over the shots."""
        b, c, h, w = query.shape
        support = support.view(b, -1, c, h * w)
        query = query.view(b, 1, c, h * w)
        dots = query.transpose(2, 3) @ support                               # [b, k, query cells, support cells]
        norms = query.norm(dim=2).unsqueeze(-1) * support.norm(dim=2).unsqueeze(-2)
        best = dots.div_(norms.add_(1e-7)).amax(-1)
        low, high = best.amin(-1, True), best.amax(-1, True)
        return ((best - low) / (high - low + 1e-7)).view(b, -1, h, w).mean(1, True)

    def forward(self, query, supports, masks):
        """query [b,3,H,W], supports [b,k,3,H,W], masks [b,k,H,W] with 1 = the class -> [b,2,H,W]."""
        b, k = supports.shape[:2]
        query_3, query_middle = self.middle(query)
        query_map, query_4 = self.down_query(query_middle), self.layer4(query_3)
        support_3, support_middle = self.middle(supports.flatten(0, 1))
        mask = resize((masks == 1).float().flatten(0, 1)[:, None], support_3.shape[2:])
        support_4 = self.layer4(support_3 * mask) * mask
        support_map = self.down_supp(support_middle)
        vector = (support_map * mask).sum((2, 3)) / (mask.sum((2, 3)) + 0.0005)
        vector = vector.view(b, k, -1).mean(1)[:, :, None, None]
        return resize(self.enrich(query_map, vector, self.prior(query_4, support_4)), query.shape[2:])

    def enrich(self, query, vector, prior):
        scales = []
        for index, side in enumerate(self.bins):
            pooled = F.adaptive_avg_pool2d(query, side)
            x = self.init_merge[index](torch.cat([pooled, vector.expand(-1, -1, side, side), resize(prior, (side, side))], 1))
            if scales:
                x = x + self.alpha_conv[index - 1](torch.cat([x, resize(scales[-1], (side, side))], 1))
            x = x + self.beta_conv[index](x)
            scales.append(resize(x, query.shape[2:]))
        x = self.res1(torch.cat(scales, 1))
        return self.cls(x + self.res2(x))


# ---- HSNet
class CentrePivotConv4d(nn.Module):
    """A 4D convolution cut down to two 2D ones: over the query cells, and over the support cells (with the stride)."""

    def __init__(self, inp, out, kernel, stride):
        super().__init__()
        self.stride = stride
        self.conv1 = nn.Conv2d(inp, out, kernel, padding=kernel // 2)
        self.conv2 = nn.Conv2d(inp, out, kernel, stride=stride, padding=kernel // 2)

    def forward(self, x):
        b, c, qh, qw, _, _ = x.shape
        pruned = x[..., ::self.stride, ::self.stride]
        sh, sw = pruned.shape[4:]
        over_query = self.conv1(pruned.permute(0, 4, 5, 1, 2, 3).reshape(b * sh * sw, c, qh, qw))
        over_query = over_query.view(b, sh, sw, -1, qh, qw).permute(0, 3, 4, 5, 1, 2)
        over_support = self.conv2(x.permute(0, 2, 3, 1, 4, 5).reshape(b * qh * qw, c, *x.shape[4:]))
        over_support = over_support.view(b, qh, qw, -1, sh, sw).permute(0, 3, 1, 2, 4, 5)
        return over_query + over_support


def conv4d_block(channels, kernels, strides):
    layers = []
    for inp, out, kernel, stride in zip(channels, channels[1:], kernels, strides):
        layers += [CentrePivotConv4d(inp, out, kernel, stride), nn.GroupNorm(4, out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class HPNLearner(nn.Module):
    """Squeezes the hypercorrelations of three stages, mixes them from coarse to fine, and decodes the mask."""

    def __init__(self, layers=(3, 6, 4)):
        super().__init__()
        widths = (16, 64, 128)
        self.encoder_layer4 = conv4d_block((layers[0], *widths), (3, 3, 3), (2, 2, 2))
        self.encoder_layer3 = conv4d_block((layers[1], *widths), (5, 3, 3), (4, 2, 2))
        self.encoder_layer2 = conv4d_block((layers[2], *widths), (5, 5, 3), (4, 4, 2))
        self.encoder_layer4to3 = conv4d_block((128,) * 4, (3, 3, 3), (1, 1, 1))
        self.encoder_layer3to2 = conv4d_block((128,) * 4, (3, 3, 3), (1, 1, 1))
        conv = lambda inp, out: nn.Conv2d(inp, out, 3, padding=1)
        self.decoder1 = nn.Sequential(conv(128, 128), nn.ReLU(inplace=True), conv(128, 64), nn.ReLU(inplace=True))
        self.decoder2 = nn.Sequential(conv(64, 64), nn.ReLU(inplace=True), conv(64, 2))

    @staticmethod
    def resize_query(x, size):
        b, c, qh, qw, sh, sw = x.shape
        x = resize(x.permute(0, 4, 5, 1, 2, 3).reshape(b * sh * sw, c, qh, qw), size)
        return x.view(b, sh, sw, c, *size).permute(0, 3, 4, 5, 1, 2)

    def forward(self, correlations):
        """[b, layers, query h, w, support h, w] of layer4, layer3, layer2 -> [b, 2, h, w]."""
        x4, x3, x2 = correlations
        x4, x3, x2 = self.encoder_layer4(x4), self.encoder_layer3(x3), self.encoder_layer2(x2)
        x = self.encoder_layer4to3(self.resize_query(x4, x3.shape[2:4]) + x3)
        x = self.encoder_layer3to2(self.resize_query(x, x2.shape[2:4]) + x2)
        x = self.decoder1(x.mean((4, 5)))
        return self.decoder2(resize(x, (2 * x.shape[-1],) * 2))


class ClassicResNet50(nn.Module):
    """torchvision's layout, stride 32. Gives the map of every block of layers 2 to 4, before its last ReLU."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = capl.make_layer(64, 64, 3, 1)
        self.layer2 = capl.make_layer(256, 128, 4, 2)
        self.layer3 = capl.make_layer(512, 256, 6, 2)
        self.layer4 = capl.make_layer(1024, 512, 3, 2)
        self.fc = nn.Linear(2048, 1000)                                      # in the checkpoints, unused

    @staticmethod
    def before_relu(block, x):
        y = F.relu(block.bn1(block.conv1(x)), inplace=True)
        y = F.relu(block.bn2(block.conv2(y)), inplace=True)
        y = block.bn3(block.conv3(y))
        return y + (x if block.downsample is None else block.downsample(x))

    def forward(self, image):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(image)), inplace=True), 3, 2, 1)
        x = self.layer1(x)
        stages = []
        for layer in (self.layer2, self.layer3, self.layer4):
            maps = []
            for block in layer:
                maps.append(self.before_relu(block, x))
                x = F.relu(maps[-1])
            stages.append(torch.stack(maps, 1))                              # [b, blocks, c, h, w]
        return stages[::-1]


def correlate(query, support):
    """Cosines of all pairs of cells, negative ones as 0: [b,l,c,qh,qw], [b,l,c,sh,sw] -> [b,l,qh,qw,sh,sw]."""
    b, l, c, qh, qw = query.shape
    sh, sw = support.shape[3:]
    unit = lambda x: x / (x.norm(dim=1, keepdim=True) + 1e-5)
    query, support = unit(query.reshape(b * l, c, qh * qw)), unit(support.reshape(b * l, c, sh * sw))
    return torch.bmm(query.transpose(1, 2), support).clamp_(min=0).view(b, l, qh, qw, sh, sw)


class HSNet(nn.Module):
    """Hypercorrelation squeeze. The query is encoded once, the supports as one batch; the shots are squeezed one by one."""

    def __init__(self):
        super().__init__()
        self.backbone = ClassicResNet50()
        self.hpn_learner = HPNLearner()

    def shots(self, query, supports, masks):
        """query [b,3,H,W], supports [b,k,3,H,W], masks [b,k,H,W] with 1 = the class -> logits [b,k,2,H,W]."""
        b, k = supports.shape[:2]
        query_maps = self.backbone(query)
        masks = (masks == 1).float().flatten(0, 1)[:, None]
        support_maps = [maps * resize(masks, maps.shape[3:])[:, None] for maps in self.backbone(supports.flatten(0, 1))]
        support_maps = [maps.unflatten(0, (b, k)) for maps in support_maps]
        logits = []
        for shot in range(k):
            small = self.hpn_learner([correlate(q, s[:, shot]) for q, s in zip(query_maps, support_maps)])
            logits.append(resize(small, query.shape[2:]))
        return torch.stack(logits, 1)

    def forward(self, query, supports, masks):
        """The mask [b,H,W]: shots vote."""
        votes = self.shots(query, supports, masks).argmax(2).sum(1)
        return votes / votes.amax((1, 2), True).clamp(min=1) >= 0.5


# ---- the same network?
def check(folder):
    from safetensors import safe_open

    passed = True
    for name in ("fs_pfenet", "fs_hsnet", "fs_hsnet_257"):
        with safe_open(folder / f"{name}.safetensors", "pt") as file:
            about, golden = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}
        net = PFENet([int(side) for side in about["bins"].split(",")]) if about["which"] == "pfenet" else HSNet()
        net.eval()
        compare_keys(net, folder / f"fs_{about['which']}_keys.tsv")
        capl.splitmix_fill(net, about["seed"])
        adjust(net, json.loads(about.get("adjust", "{}")))
        inputs = [golden[key] for key in ("query_image", "support_image", "support_mask")]
        with torch.inference_mode():
            if about["which"] == "pfenet":
                pairs = {"logits": net(*inputs)}
            else:
                small = [inputs[0][..., :90, :90], inputs[1][:, :1, :, :90, :90], inputs[2][:, :1, :90, :90]]
                pairs = {"logits": net.shots(*inputs), "odd_logits": net.shots(*small)[:, 0]}
                wrong = (net(*inputs) != (golden["mask"] == 1)).sum().item()
                passed &= wrong == 0
                print(f"{name}: mask: {wrong} pixels differ")
                for index in range(3):
                    query, support = (golden[f"unit_{kind}{index}"][:, None] for kind in ("query", "support"))
                    pairs[f"unit_corr{index}"] = correlate(query, support)[:, 0]
        for key, ours in pairs.items():
            worst = (ours - golden[key]).abs().max().item()
            limit = 1e-5 if key.startswith("unit") else TOLERANCE[about["which"]]
            passed &= worst < limit                                          # NaN fails
            print(f"{name}: {key} {list(ours.shape)}: largest difference {worst:.1e}, allowed {limit:.0e}, "
                  f"values reach {golden[key].abs().max():.1f}")
    print("the same networks" if passed else "these are NOT the same networks")
    return 0 if passed else 1


def compare_keys(net, path):
    listed = {key: shape for key, shape in (line.split("\t")[:2] for line in path.read_text().splitlines() if line)}
    own = {key: "x".join(map(str, tensor.shape)) for key, tensor in net.state_dict().items() if not key.endswith("num_batches_tracked")}
    different = set(listed.items()) ^ set(own.items())
    assert not different, f"keys or shapes differ from {path}: {sorted(different)[:5]}"


@torch.no_grad()
def adjust(net, changes):
    tensors = net.state_dict()
    for key, change in changes.items():
        if "scale" in change:
            tensors[key].mul_(change["scale"])
        if "set" in change:
            tensors[key].copy_(torch.tensor(change["set"]).view_as(tensors[key]))


# ---- speed
def worker(model, shots, threads, runs):
    """PyTorch's episodes in this process; prints what it took."""
    torch.set_num_threads(threads)
    torch.manual_seed(5)
    size = SIZES[model]
    net = {"pfenet": PFENet, "hsnet": HSNet}[model]().eval()
    capl.splitmix_fill(net)
    query, supports = torch.randn(1, 3, size, size), torch.randn(1, shots, 3, size, size)
    masks = torch.zeros(1, shots, size, size, dtype=torch.uint8)
    masks[..., size // 4:3 * size // 4, size // 3:2 * size // 3] = 1
    times = []
    with torch.inference_mode():
        episode = net if model == "pfenet" else net.shots
        for _ in range(runs + 1):
            started = time.perf_counter()
            logits = episode(query, supports, masks)
            times.append(1e3 * (time.perf_counter() - started))
    assert logits.shape[-2:] == (size, size) and logits.isfinite().all()
    print(json.dumps({"milliseconds": statistics.median(times[1:]), "peak_memory_bytes": memory.peak()}))


def ask(command, environment):
    answer = subprocess.run(command, capture_output=True, text=True, env=environment)
    if answer.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{answer.stderr.strip()}")
    answer = json.loads(answer.stdout[answer.stdout.index("{"):])
    return answer["milliseconds"], answer["peak_memory_bytes"] / 2**20


def measure(args, model, shots):
    """Rounds in which each runs once, ours first in even rounds; a row of the table."""
    commands = {"protoseg": [args.binary, "bench", "episodes", "--method", model, "--size", str(SIZES[model]), "--shots", str(shots),
                             "--runs", str(args.runs), "--json"],
                "PyTorch": [sys.executable, __file__, "--worker", model, "--shots", str(shots), "--threads", str(args.threads),
                            "--runs", str(args.runs)]}
    # A thread that spins while it waits would slow the other's start.
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE", "RAYON_NUM_THREADS": str(args.threads)}
    times, peaks = {name: [] for name in commands}, {name: [] for name in commands}
    for index in range(args.rounds):
        for name in list(commands)[::1 if index % 2 == 0 else -1]:
            milliseconds, peak = ask(commands[name], environment)
            times[name].append(milliseconds)
            peaks[name].append(peak)
        print(f"{model}, {shots} shot{'s' * (shots > 1)}, round {index + 1}: protoseg {times['protoseg'][-1]:.0f} ms, "
              f"PyTorch {times['PyTorch'][-1]:.0f} ms", file=sys.stderr, flush=True)
    ratios = [theirs / ours for ours, theirs in zip(times["protoseg"], times["PyTorch"])]
    middle = {name: statistics.median(values) for name, values in times.items()}
    return (f"| {NAMES[model]} | {SIZES[model]} | {shots} | {middle['protoseg']:.0f} | {middle['PyTorch']:.0f} | {statistics.median(ratios):.2f} | "
            f"{min(ratios):.2f} | {max(peaks['protoseg']):.0f} | {max(peaks['PyTorch']):.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--check", action="store_true", help="compare with the golden files and stop")
    parser.add_argument("--golden", type=pathlib.Path, default=os.environ.get("PROTOSEG_GOLDEN", here / "../shared/golden"))
    parser.add_argument("--binary", type=pathlib.Path, default=here / "target/release/protoseg")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3, help="timed episodes per process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", default="pfenet,hsnet")
    parser.add_argument("--shots", default="1,5")
    parser.add_argument("--worker", choices=SIZES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.check:
        return check(pathlib.Path(args.golden))
    if args.worker:
        return worker(args.worker, int(args.shots), args.threads, args.runs)
    rows = [measure(args, model, int(shots)) for model in args.models.split(",") for shots in args.shots.split(",")]
    print(f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} CPUs, {args.threads} threads, PyTorch {torch.__version__} eager, "
          f"medians of {args.rounds} rounds, {args.runs} timed per process\n")
    print("| model | size | shots | protoseg ms | PyTorch ms | PyTorch / protoseg | least of a round | protoseg MiB | PyTorch MiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    sys.exit(main())
