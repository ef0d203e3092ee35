"""Encoders of torchvision and semseg must give PyTorch's maps after loading: ResNet-18/50/101, deep-stem ResNet-50,
VGG-16, MobileNetV2, MobileNetV3 Large and Small, and ConvNeXt-T of timm.

Makes random ones, saves each as `NAME.pth` as its own library would, with `NAME.safetensors` of an input and the last
map at its own output stride: 8 for ResNets and VGG-16 (as PANet dilates it), 32 for MobileNets (the map before their last
1x1) and ConvNeXt. Then runs our test on them.

usage: python encoder_parity.py
needs: torch, torchvision, timm, safetensors, numpy
"""
import os
import subprocess
import tempfile
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from safetensors.torch import save_file

import capl


class DeepStem(nn.Module):
    """ResNet-50 with semseg's names."""

    def __init__(self):
        super().__init__()
        stem = capl.deep_stem()
        self.conv1, self.bn1, self.conv2, self.bn2, self.conv3, self.bn3 = (stem[i] for i in (0, 1, 3, 4, 6, 7))
        widths = [(128, 64, 1), (256, 128, 2), (512, 256, 2), (1024, 512, 2)]
        for i, ((inp, mid, stride), n) in enumerate(zip(widths, capl.BLOCKS[50])):
            setattr(self, f"layer{i + 1}", capl.make_layer(inp, mid, n, stride))
        self.fc = nn.Linear(2048, 1000)

    def stem(self, x):
        for i in (1, 2, 3):
            x = F.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)))
        return F.max_pool2d(x, 3, 2, 1)


def resnet(net, stem):
    capl.dilate(net.layer3, 2)
    capl.dilate(net.layer4, 4)
    return lambda x: net.layer4(net.layer3(net.layer2(net.layer1(stem(x)))))


def vgg(net):
    def forward(x):
        convs = [layer for layer in net.features if isinstance(layer, nn.Conv2d)]
        for block, n in enumerate((2, 2, 3, 3, 3)):
            if block:
                x = F.max_pool2d(x, 3, 1 if block == 4 else 2, 1)
            for _ in range(n):
                conv, dilation = convs.pop(0), 2 if block == 4 else 1
                x = F.conv2d(x, conv.weight, conv.bias, padding=dilation, dilation=dilation)
                x = F.relu(x) if convs else x
        return x

    return forward


@torch.no_grad()
def write(folder, name, net, forward):
    images = torch.randn(4, 3, 65, 65)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.uniform_(0.8, 1.2), module.bias.uniform_(-0.1, 0.1)
    net.train(), forward(images)  # running statistics of something
    net.eval()
    torch.save(net.state_dict(), folder / f"{name}.pth")
    save_file({"input": images[:1].contiguous(), "output": forward(images[:1]).contiguous()}, folder / f"{name}.safetensors")


def main():
    torch.manual_seed(5)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("resnet18", "resnet50", "resnet101"):
            net = getattr(torchvision.models, name)()
            write(folder, name, net, resnet(net, lambda x, net=net: net.maxpool(net.relu(net.bn1(net.conv1(x))))))
        net = DeepStem()
        write(folder, "resnet50_deep", net, resnet(net, net.stem))
        net = torchvision.models.vgg16()
        write(folder, "vgg16", net, vgg(net))
        net = torchvision.models.mobilenet_v2()
        write(folder, "mobilenet_v2", net, net.features[:18])
        for name in ("mobilenet_v3_large", "mobilenet_v3_small"):
            net = getattr(torchvision.models, name)()
            write(folder, name, net, net.features[:-1])
        import timm

        net = timm.create_model("convnext_tiny", pretrained=False)
        for name, values in net.named_parameters():
            if name.endswith("gamma"):
                values.data.uniform_(0.5, 1.0)
        write(folder, "convnext_tiny", net, lambda x, net=net: net.stages(net.stem(x)))
        command = ["cargo", "test", "--release", "--workspace", "--test", "it", "encoders_of_others", "--",
                   "--ignored", "--nocapture"]
        subprocess.run(command, cwd=Path(__file__).resolve().parents[2], env={**os.environ, "PROTOSEG_ENCODERS": str(folder)}, check=True)


if __name__ == "__main__":
    main()
