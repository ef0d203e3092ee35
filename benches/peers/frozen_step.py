"""Makes crates/protoseg/tests/data/frozen_step.safetensors: gradients of one training step with frozen batch-norm.

Golden gradients of the encoder are ill-conditioned: batch statistics over few positions amplify rounding, and a ReLU at
the edge flips (PyTorch in single and in double precision disagree by several percent; `--golden` prints it). With
frozen batch-norm and a small crop nothing is at an edge, and a gradient can be compared to a thousandth all the way
down to the first convolution. Weights are generated from tensor names, images from a formula, so the file holds
gradients only.

usage: python frozen_step.py OUT.safetensors | python frozen_step.py --golden ../../../shared/golden/pspnet50.safetensors
"""
import json
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file

import capl

SIZE, BATCH, CLASSES, BASE = 33, 4, 21, 16
FAKE_NOVEL = [1, 2]
KEPT = ["layer0.0.weight", "layer1.0.bn1.weight", "layer2.0.bn2.weight", "layer2.3.bn3.bias",
        "layer3.0.bn1.weight", "layer3.5.bn3.bias", "layer4.0.bn2.weight", "layer4.2.bn3.bias", "ppm.features.0.2.weight",
        "ppm.features.3.2.bias", "cls.1.weight", "cls.4.bias", "aux.1.weight", "gamma_conv.2.weight"]


def model(dtype):
    net = capl.PSPNet(50, CLASSES, BASE, dropout=0.0)
    capl.splitmix_fill(net)
    return net.to(dtype)


def batch(dtype):
    """Images from the stream named `image`; labels in vertical bands 0 0 1 1 2 3 3 .. that shift with the image."""
    images = torch.from_numpy(capl.splitmix_u("image", BATCH * 3 * SIZE * SIZE)).view(BATCH, 3, SIZE, SIZE)
    column = torch.arange(SIZE).expand(BATCH, SIZE, SIZE)
    labels = (column // 6 + torch.arange(BATCH).view(-1, 1, 1)) % 5
    labels[:, :4] = capl.IGNORE
    return images.to(dtype) * 2, labels


def gradients(dtype, images, labels, fake_novel, training):
    net = model(dtype).train(training)
    losses = net.losses(images.to(dtype), labels, fake_novel, True)
    losses[2].backward()
    return [loss.item() for loss in losses], {k: p.grad.double() for k, p in net.named_parameters()}


def worst(a, b):
    return {k: ((a[k] - b[k]).abs().max() / b[k].abs().max()).item() for k in b}


def main():
    if sys.argv[1] == "--golden":
        golden = safe_open(sys.argv[2], "pt")
        args = golden.get_tensor("train_image"), golden.get_tensor("train_label"), json.loads(golden.metadata()["fake_novel"])[0]
        single, double = (gradients(t, *args, training=True)[1] for t in (torch.float32, torch.float64))
        stored = {k[5:]: golden.get_tensor(k).double() for k in golden.keys() if k.startswith("grad.")}
        print(f"{'largest difference / largest value':36} {'single-double':>14} {'single-golden':>14} {'double-golden':>14}")
        for k in stored:
            row = [worst(a, {k: b[k]})[k] for a, b in ((single, double), (single, stored), (double, stored))]
            print(f"{k:36} " + " ".join(f"{value:14.1e}" for value in row))
        return
    images, labels = batch(torch.float64)
    (losses, double), (_, single) = (gradients(t, images, labels, FAKE_NOVEL, training=False) for t in (torch.float64, torch.float32))
    rows = worst(single, double)
    print("losses (main, aux, total):", losses)
    print("PyTorch's single against its double precision, kept tensors:", {k: f"{rows[k]:.0e}" for k in KEPT})
    print("all tensors, worst:", max(rows.values()))
    kept = {f"grad.{k}": double[k].float() for k in KEPT}
    kept["losses"] = torch.tensor(losses, dtype=torch.float32)
    save_file(kept, sys.argv[1])


if __name__ == "__main__":
    main()
