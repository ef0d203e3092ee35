"""Vision transformers must give the maps of `transformers` and `timm` after loading: DINOv2 S and B with and without
registers, DINOv3 S, and a narrow network that is gated as DINOv2 g, in the layouts of transformers (old and new names), timm
and torch.hub, at 224 x 224 and on a canvas that is not square.

Weights are random. Maps are the tokens of patches after each quarter of the blocks, normalised by the last layer. Writes
weights, inputs and maps, then runs our test on them: operations of Burn and kernels, both within 1e-3.

usage: python vit_parity.py             all of it
       python vit_parity.py --fixture   makes crates/protoseg/tests/data/vit.safetensors, the small cases of the tests
needs: torch, transformers, timm, safetensors, numpy
"""
import argparse
import os
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import (Dinov2Config, Dinov2Model, Dinov2WithRegistersConfig, Dinov2WithRegistersModel, DINOv3ViTConfig,
                          DINOv3ViTModel)

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"small": (384, 12), "base": (768, 12)}
CANVASES = [(224, 224), (280, 168)]


def model(kind, width, depth, side=518):
    shape = dict(hidden_size=width, num_hidden_layers=depth, num_attention_heads=width // 64)
    if kind == "dinov2":
        return Dinov2Model(Dinov2Config(patch_size=14, image_size=side, **shape))
    if kind == "registers":
        return Dinov2WithRegistersModel(Dinov2WithRegistersConfig(patch_size=14, image_size=side, num_register_tokens=4, **shape))
    return DINOv3ViTModel(DINOv3ViTConfig(patch_size=16, image_size=224, num_register_tokens=4, intermediate_size=4 * width, **shape))


@torch.no_grad()
def randomise(net):
    generator = torch.Generator().manual_seed(5)
    for name, values in net.named_parameters():
        noise = torch.randn(values.shape, generator=generator)
        if values.ndim == 1 and ("norm" in name and name.endswith("weight") or "scale" in name or "gamma" in name):
            values.copy_(0.8 + 0.2 * noise)
        else:
            values.copy_(noise * (0.5 / max(values.shape[-1], 16) ** 0.5 if values.ndim > 1 else 0.1))
    return net.eval()


@torch.no_grad()
def maps(net, image, depth, patch):
    """After each quarter of the blocks, `[1, channels, height, width]`."""
    states = net(image, output_hidden_states=True).hidden_states
    norm = net.layernorm if hasattr(net, "layernorm") else net.norm
    height, width = image.shape[2] // patch, image.shape[3] // patch
    def grid(tokens):
        return norm(tokens)[:, -height * width:].transpose(1, 2).unflatten(2, (height, width)).contiguous()
    return {f"map{quarter}": grid(states[quarter * depth // 4]) for quarter in (1, 2, 3, 4)}


def old_names(tensors):
    """As transformers wrote DINOv2 before its attention layers were renamed."""
    words = {"q_proj": "attention.query", "k_proj": "attention.key", "v_proj": "attention.value", "o_proj": "output.dense"}
    def old(name):
        return re.sub(r"attention\.(\w_proj)", lambda found: f"attention.{words[found[1]]}", name)
    tensors = {old(name): values for name, values in tensors.items()}
    # Both matrices of a gated network in one.
    for name in [name for name in tensors if ".mlp.gate_proj." in name]:
        parts = [tensors.pop(name), tensors.pop(name.replace("gate_proj", "up_proj"))]
        tensors[name.replace("gate_proj", "weights_in")] = torch.cat(parts)
        tensors[name.replace("gate_proj", "weights_out")] = tensors.pop(name.replace("gate_proj", "down_proj"))
    return tensors


def hub_names(tensors):
    """As torch.hub has DINOv2: one matrix of queries, keys and values."""
    tensors, hub = dict(tensors), {}
    for name in [name for name in tensors if ".q_proj." in name]:
        parts = [tensors.pop(name.replace("q_proj", part)) for part in ("q_proj", "k_proj", "v_proj")]
        tensors[name.replace("attention.q_proj", "attn.qkv")] = torch.cat(parts)
    changes = [(r"^embeddings\.patch_embeddings\.projection", "patch_embed.proj"), (r"^embeddings\.position_embeddings", "pos_embed"),
               (r"^embeddings\.", ""), (r"^encoder\.layer", "blocks"), (r"attention\.o_proj", "attn.proj"),
               (r"layer_scale(\d)\.lambda1", r"ls\1.gamma"), (r"^layernorm", "norm")]
    for name, values in tensors.items():
        for pattern, new in changes:
            name = re.sub(pattern, new, name)
        hub[name] = values
    return hub


def hub_names_of_dinov3(tensors):
    """As torch.hub has DINOv3. Biases of keys are in the file, and a mask says that they do not count."""
    tensors, hub = dict(tensors), {}
    for name in [name for name in tensors if name.endswith(".q_proj.weight")]:
        name = name.removesuffix("q_proj.weight")
        parts = [tensors.pop(f"{name}{part}_proj.weight") for part in "qkv"]
        biases = [tensors.pop(f"{name}{part}_proj.bias") for part in "qv"]
        ours = name.replace("attention.", "attn.qkv")
        tensors[f"{ours}.weight"] = torch.cat(parts)
        tensors[f"{ours}.bias"] = torch.cat([biases[0], torch.ones_like(biases[0]), biases[1]])
        tensors[f"{ours}.bias_mask"] = torch.cat([torch.ones_like(biases[0]), torch.zeros_like(biases[0]), torch.ones_like(biases[0])])
    changes = [(r"^embeddings\.patch_embeddings", "patch_embed.proj"), (r"^embeddings\.register_tokens", "storage_tokens"),
               (r"^embeddings\.", ""), (r"^(model\.)?layer\.", "blocks."), (r"attention\.o_proj", "attn.proj"),
               (r"layer_scale(\d)\.lambda1", r"ls\1.gamma"), (r"mlp\.up_proj", "mlp.fc1"), (r"mlp\.down_proj", "mlp.fc2")]
    for name, values in tensors.items():
        for pattern, new in changes:
            name = re.sub(pattern, new, name)
        hub[name] = values
    hub["rope_embed.periods"] = torch.ones(16)
    return hub


def write(folder, name, tensors, cases):
    save_file({key: values.contiguous() for key, values in tensors.items()}, folder / f"{name}.weights.safetensors")
    for image, expected in cases:
        height, width = image.shape[2:]
        save_file({"input": image, **expected}, folder / f"{name}.{height}x{width}.safetensors")


@torch.no_grad()
def timm_maps(net, image, depth):
    indices = [quarter * depth // 4 - 1 for quarter in (1, 2, 3, 4)]
    found = net.forward_intermediates(image, indices=indices, norm=True, intermediates_only=True)
    return {f"map{place + 1}": values.contiguous() for place, values in enumerate(found)}


def everything(folder):
    import timm

    for size, (width, depth) in SIZES.items():
        for kind in ("dinov2", "registers"):
            net = randomise(model(kind, width, depth))
            cases = [(image, maps(net, image, depth, 14)) for image in (torch.randn(1, 3, *canvas) for canvas in CANVASES)]
            tensors = net.state_dict()
            write(folder, f"{kind}-{size}-transformers", tensors, cases)
            if size == "small":
                write(folder, f"{kind}-{size}-old", old_names(tensors), cases)
                write(folder, f"{kind}-{size}-hub", hub_names(tensors), cases)
    net = randomise(model("dinov3", *SIZES["small"]))
    cases = [(image, maps(net, image, 12, 16)) for image in (torch.randn(1, 3, *canvas) for canvas in [(224, 224), (288, 160)])]
    write(folder, "dinov3-small-transformers", net.state_dict(), cases)
    write(folder, "dinov3-small-hub", hub_names_of_dinov3(net.state_dict()), cases)
    # Timm has models of DINOv3 with biases of queries and values, and without.
    for name in ("vit_small_patch16_dinov3", "vit_small_patch16_dinov3_qkvb"):
        net = randomise(timm.create_model(name, pretrained=False, dynamic_img_size=True, num_classes=0))
        image = torch.randn(1, 3, 288, 160)
        write(folder, name.replace("_", "-"), net.state_dict(), [(image, timm_maps(net, image, 12))])
    # The network of DINOv2-g is gated; a narrow one of its kind takes less time.
    net = randomise(Dinov2Model(Dinov2Config(patch_size=14, image_size=518, hidden_size=384, num_hidden_layers=8, num_attention_heads=6,
                                             use_swiglu_ffn=True)))
    image = torch.randn(1, 3, 280, 168)
    write(folder, "dinov2-gated-old", old_names(net.state_dict()), [(image, maps(net, image, 8, 14))])
    # Timm smooths the positions of weights without registers too; on their own grid it makes no difference.
    for name, canvas in (("vit_small_patch14_dinov2", (518, 518)), ("vit_small_patch14_reg4_dinov2", (280, 168))):
        net = randomise(timm.create_model(name, pretrained=False, dynamic_img_size=True, num_classes=0))
        image = torch.randn(1, 3, *canvas)
        write(folder, name.replace("_", "-"), net.state_dict(), [(image, timm_maps(net, image, 12))])


def by_formula(name, values):
    """The same numbers in Python and in Rust: a hash of the name and the place."""
    seed = sum(name.encode())
    places = np.arange(values.numel(), dtype=np.uint64)
    mixed = ((places + 1) * 2654435761 + seed * 40503) % 2**32
    mixed = (mixed ^ (mixed >> 15)) * 2246822519 % 2**32
    mixed = mixed ^ (mixed >> 13)
    unit = (mixed.astype(np.float64) / 2**32 - 0.5).astype(np.float32)
    shift = 1.0 if values.ndim == 1 and (name.endswith("weight") or name.endswith("lambda1")) else 0.0
    return torch.from_numpy(unit * 0.5 + shift).reshape(values.shape)


@torch.no_grad()
def fixture():
    tensors = {}
    for kind, patch in (("dinov2", 14), ("registers", 14), ("dinov3", 16)):
        net = model(kind, 64, 4, side=42).eval()
        for name, values in net.state_dict().items():
            values.copy_(by_formula(name, values))
        image = by_formula("input", torch.empty(1, 3, 2 * patch, 4 * patch)) * 4
        tensors |= {f"{kind}.{name}": values for name, values in maps(net, image, 4, patch).items()}
    save_file(tensors, ROOT / "crates/protoseg/tests/data/vit.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixture", action="store_true")
    if parser.parse_args().fixture:
        return fixture()
    torch.manual_seed(5)
    with tempfile.TemporaryDirectory() as temporary:
        everything(Path(temporary))
        command = ["cargo", "test", "--release", "--workspace", "--test", "it", "vision_transformers_of_others", "--", "--ignored", "--nocapture"]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "PROTOSEG_VITS": temporary}, check=True)


if __name__ == "__main__":
    main()
