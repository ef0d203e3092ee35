"""EfficientNet-Lite0 without its classifier, for comparisons of speed and maps, alone and as the network of the model in the
box. The names are those of `efficientnet_lite_pytorch`, so that its checkpoints load.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

# Widening, kernel, stride, channels and blocks of each stage.
STAGES = [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)]
# The blocks whose maps the model in the box joins: 40, 112 and 320 channels at strides 8, 16 and 32.
JOINED = [4, 10, 15]


class Conv(nn.Conv2d):
    """Stride 2 pads one zero more below and to the right."""

    def __init__(self, inp, out, kernel, stride=1, groups=1):
        super().__init__(inp, out, kernel, stride, padding=kernel // 2 if stride == 1 else 0, groups=groups, bias=False)
        before, after = kernel // 2 - 1, kernel // 2
        self.zeros = None if stride == 1 else (before, after, before, after)

    def forward(self, x):
        return super().forward(x if self.zeros is None else F.pad(x, self.zeros))


def norm(channels):
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class Block(nn.Module):
    def __init__(self, inp, out, widen, kernel, stride):
        super().__init__()
        wide = inp * widen
        if widen > 1:
            self._expand_conv, self._bn0 = Conv(inp, wide, 1), norm(wide)
        self._depthwise_conv, self._bn1 = Conv(wide, wide, kernel, stride, groups=wide), norm(wide)
        self._project_conv, self._bn2 = Conv(wide, out, 1), norm(out)
        self.widens, self.adds = widen > 1, stride == 1 and inp == out

    def forward(self, x):
        y = F.relu6(self._bn0(self._expand_conv(x))) if self.widens else x
        y = F.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return y + x if self.adds else y


class EfficientNetLite0(nn.Module):
    """An image -> the last map, 320 channels at stride 32. `main_proto` are rows to compare its pixels with."""

    def __init__(self, classes=2):
        super().__init__()
        self.main_proto = nn.Parameter(torch.randn(classes, 320))
        self._conv_stem, self._bn0 = Conv(3, 32, 3, 2), norm(32)
        blocks, inp = [], 32
        for widen, kernel, stride, out, count in STAGES:
            for index in range(count):
                blocks.append(Block(inp, out, widen, kernel, stride if index == 0 else 1))
                inp = out
        self._blocks = nn.ModuleList(blocks)

    def forward(self, x):
        x = F.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return x

    features = forward


def unit(x):
    """Every pixel of a map at unit length."""
    return x / x.norm(dim=1, keepdim=True).clamp(min=1e-12)


class Box(EfficientNetLite0):
    """The network of the model in the box: an image -> its features, 472 channels at stride 8."""

    def forward(self, x):
        x, maps = F.relu6(self._bn0(self._conv_stem(x))), []
        for index, block in enumerate(self._blocks):
            x = block(x)
            if index in JOINED:
                maps.append(unit(x))
        grid = maps[0].shape[2:]
        maps[1:] = [F.interpolate(x, grid, mode="bilinear", align_corners=False) for x in maps[1:]]
        return unit(torch.cat(maps, 1))

    features = forward

    def load(self, tensors):
        """The weights of a protoseg model."""
        names = {name: our_name(name) for name in self.state_dict() if name != "main_proto"}
        state = {name: tensors[ours].float() for name, ours in names.items() if ours}
        unknown = self.load_state_dict(state, strict=False).missing_keys
        assert all(name == "main_proto" or name.endswith("num_batches_tracked") for name in unknown), unknown
        return self.eval()


def our_name(name):
    """Of a tensor as protoseg calls it; None where it has no such tensor."""
    layers = {"_expand_conv": "expand.conv", "_bn0": "expand.bn", "_depthwise_conv": "depthwise.conv", "_bn1": "depthwise.bn",
              "_project_conv": "project.conv", "_bn2": "project.bn"}
    first, *rest = name.split(".")
    if name == "main_proto":
        return "classifier"
    if rest[-1] == "num_batches_tracked":
        return None
    if first == "_blocks":
        return ".".join(["encoder.blocks", rest[0], layers[rest[1]], rest[2]])
    return ".".join(["encoder.stem", {"_conv_stem": "conv", "_bn0": "bn"}[first], rest[0]])
