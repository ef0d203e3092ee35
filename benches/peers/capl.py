"""PyTorch model of GFS-Seg CAPL (PSPNet on a deep-stem ResNet), written from the equations: the peer of our parity tests."""
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHA, EPS, IGNORE = 10.0, 1e-12, 255
BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class Bottleneck(nn.Module):
    def __init__(self, inp, mid, stride=1, down=False):
        super().__init__()
        out = mid * 4
        self.conv1 = nn.Conv2d(inp, mid, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(mid)
        self.conv2 = nn.Conv2d(mid, mid, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(mid)
        self.conv3 = nn.Conv2d(mid, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.downsample = nn.Sequential(nn.Conv2d(inp, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out)) if down else None

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


def make_layer(inp, mid, n, stride):
    return nn.Sequential(Bottleneck(inp, mid, stride, True), *[Bottleneck(mid * 4, mid) for _ in range(n - 1)])


def dilate(layer, d):
    """Every 3x3 of the layer: dilation d, padding d, stride 1; shortcut stride 1. Works on Bottleneck and BasicBlock."""
    for m in layer.modules():
        if isinstance(m, nn.Conv2d):
            m.stride = (1, 1)
            if m.kernel_size == (3, 3):
                m.dilation = m.padding = (d, d)


def deep_stem():
    conv = lambda i, o, s: nn.Conv2d(i, o, 3, stride=s, padding=1, bias=False)
    return nn.Sequential(conv(3, 64, 2), nn.BatchNorm2d(64), nn.ReLU(), conv(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU(),
                         conv(64, 128, 1), nn.BatchNorm2d(128), nn.ReLU(), nn.MaxPool2d(3, 2, 1))


class PPM(nn.Module):
    def __init__(self, inp, mid, bins=(1, 2, 3, 6)):
        super().__init__()
        self.features = nn.ModuleList(nn.Sequential(
            nn.AdaptiveAvgPool2d(b), nn.Conv2d(inp, mid, 1, bias=False), nn.BatchNorm2d(mid), nn.ReLU()) for b in bins)

    def forward(self, x):
        return torch.cat([x] + [F.interpolate(f(x), x.shape[2:], mode='bilinear', align_corners=True) for f in self.features], 1)


def head(inp, mid, p):
    return nn.Sequential(nn.Conv2d(inp, mid, 3, padding=1, bias=False), nn.BatchNorm2d(mid), nn.ReLU(), nn.Dropout2d(p), nn.Conv2d(mid, mid, 1))


def unit(t, dim, eps=EPS):
    return t / (t.norm(2, dim, True) + eps)


def score(x, proto):
    """alpha * cos; x [b,d,h,w], proto [n,d] or [b,n,d] -> [b,n,h,w]. Plain norms, no epsilon."""
    x, proto = unit(x, 1, 0.0), unit(proto, -1, 0.0)
    return ALPHA * torch.einsum('bdhw,nd->bnhw' if proto.dim() == 2 else 'bdhw,bnd->bnhw', x, proto)


def down_label(y, hw):
    return F.interpolate(y[:, None].to(torch.float32), hw, mode='nearest')[:, 0].long()


def pooled(x, mask, eps=0.0):
    """mean of x [k,d,h,w] over all pixels of mask [k,h,w], all images together."""
    m = mask.to(x.dtype)
    return torch.einsum('kdhw,khw->d', x, m) / (m.sum() + eps)


class PSPNet(nn.Module):
    def __init__(self, layers=50, classes=21, base_num=16, dropout=0.1):
        super().__init__()
        self.base_num = base_num
        self.main_proto = nn.Parameter(torch.randn(classes, 512))
        self.aux_proto = nn.Parameter(torch.randn(classes, 256))
        n = BLOCKS[layers]
        self.layer0 = deep_stem()
        self.layer1 = make_layer(128, 64, n[0], 1)
        self.layer2 = make_layer(256, 128, n[1], 2)
        self.layer3 = make_layer(512, 256, n[2], 2)
        self.layer4 = make_layer(1024, 512, n[3], 2)
        dilate(self.layer3, 2)
        dilate(self.layer4, 4)
        self.ppm = PPM(2048, 512)
        self.cls = head(4096, 512, dropout)
        self.aux = head(1024, 256, dropout)
        self.gamma_conv = nn.Sequential(nn.Linear(1024, 512, bias=False), nn.ReLU(), nn.Linear(512, 1))

    # ---- extractor
    def stages(self, x):
        out = []
        for i in range(5):
            x = getattr(self, f'layer{i}')(x)
            out.append(x)
        return out

    def head(self, l4):
        return self.cls(self.ppm(l4))

    def features(self, x):
        return self.head(self.stages(x)[4])

    def gamma(self, p_cls, p_sup):
        return torch.sigmoid(self.gamma_conv(torch.cat([p_cls, p_sup], -1)))

    # ---- registration (reference rows d, e, f, g)
    def register(self, images, labels):
        """images [n,k,3,h,w], labels [n,k,h,w] with row ids -> [rows,512]; novel class u is row base_num+u."""
        nb = self.base_num
        rows = self.main_proto.clone()
        base = []
        for u in range(images.shape[0]):
            f = self.features(images[u])
            y = down_label(labels[u], f.shape[2:])
            p = self.main_proto[:nb].clone()                 # raw rows where the class does not occur
            for i in range(nb):
                if (y == i).any():
                    p[i] = pooled(f, y == i)
            base.append(p)
            if (y == nb + u).any():
                rows[nb + u] = pooled(f, y == nb + u)
        p_sup = unit(torch.stack(base).mean(0), 1)
        p_cls = unit(self.main_proto[:nb], 1)
        g = self.gamma(p_cls, p_sup)
        rows = torch.cat([g * p_cls + (1 - g) * p_sup, rows[nb:]])
        return unit(rows, 1)

    # ---- DQCE (reference rows a, b): p_dyn of all rows
    def dqce(self, f):
        p = self.main_proto[None]
        a = score(f, self.main_proto).flatten(2).softmax(-1)
        q = a @ f.flatten(2).transpose(1, 2)
        g = F.cosine_similarity(q, p.expand_as(q), dim=-1, eps=EPS).clamp(min=0)[..., None]
        return g * q + (1 - g) * p

    def classifier(self, f, rows):
        """per-image classifier [b,rows,512] (row c; base rows only)."""
        nb = self.base_num
        rows = rows[None].expand(f.shape[0], -1, -1)
        return torch.cat([rows[:, :nb] + self.dqce(f)[:, :nb], rows[:, nb:]], 1)

    def logits_from_features(self, f, rows, size):
        return F.interpolate(score(f, self.classifier(f, rows)), size, mode='bilinear', align_corners=True)

    def logits(self, query, registered):
        return self.logits_from_features(self.features(query), registered, query.shape[2:])

    # ---- training (rows f, g, h, i, j)
    def fake_rows(self, f, y, fake_novel, enrich_background):
        y = down_label(y, f.shape[2:])
        present = [c for c in y.unique().tolist() if c != IGNORE]
        f = unit(f, 1)
        p_cls = unit(self.main_proto, 1)
        rows = list(p_cls)
        for c in present:
            if c == 0 and not enrich_background:
                continue
            p_sup = pooled(f, y == c, EPS)
            if c in fake_novel:
                rows[c] = p_sup
            else:
                g = self.gamma(p_cls[c], p_sup)
                rows[c] = g * p_cls[c] + (1 - g) * p_sup
        return torch.stack(rows)

    def losses(self, images, labels, fake_novel, enrich_background=True):
        s = self.stages(images)
        f, up = self.head(s[4]), lambda t: F.interpolate(t, images.shape[2:], mode='bilinear', align_corners=True)
        ce = lambda t: F.cross_entropy(up(t), labels.long(), ignore_index=IGNORE)
        half = images.shape[0] // 2
        rows = self.fake_rows(f[half:], labels[half:], set(fake_novel), enrich_background)
        main = 0.5 * ce(score(f, self.classifier(f, rows))) + 0.5 * ce(score(f, rows))
        aux = ce(score(self.aux(s[3]), self.aux_proto))
        return main, aux, main + 0.4 * aux


class ASPP(nn.Module):
    def __init__(self, inp, mid, rates=(12, 24, 36)):
        super().__init__()
        conv = lambda **how: nn.Sequential(nn.Conv2d(inp, mid, bias=False, **how), nn.BatchNorm2d(mid), nn.ReLU())
        self.branches = nn.ModuleList([conv(kernel_size=1), *(conv(kernel_size=3, padding=r, dilation=r) for r in rates)])
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(kernel_size=1))

    def forward(self, x):
        return torch.cat([b(x) for b in self.branches] + [self.pool(x).expand(-1, -1, *x.shape[2:])], 1)


class DeepLabV3(PSPNet):
    """The same around an atrous pyramid and a 1x1 convolution behind it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        del self.ppm
        self.aspp = ASPP(2048, 256)
        self.merge = nn.Sequential(nn.Conv2d(1280, 256, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU())
        self.cls = head(256, 512, 0.1)

    def head(self, l4):
        return self.cls(self.merge(self.aspp(l4)))


# ---- weights generated from tensor names, as in the golden data
def fnv1a64(s):
    h = 0xcbf29ce484222325
    for b in s.encode():
        h = ((h ^ b) * 0x100000001b3) & 0xFFFFFFFFFFFFFFFF
    return h


def splitmix_u(name, n):
    with np.errstate(over='ignore'):
        z = np.uint64(fnv1a64(name)) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z ^= z >> np.uint64(30); z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27); z *= np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(40)).astype(np.float64) / 2**24 * 2 - 1).astype(np.float32)


@torch.no_grad()
def splitmix_fill(model, seed=''):
    for k, t in model.state_dict().items():
        if k.endswith('num_batches_tracked'):
            t.zero_()
            continue
        u = torch.from_numpy(splitmix_u(seed + k, t.numel())).view(t.shape).to(t.dtype)
        if k.endswith('running_mean'): v = 0.1 * u
        elif k.endswith('running_var'): v = 1 + 0.5 * u
        elif k.endswith('proto'): v = u
        elif t.dim() == 1: v = 1 + 0.2 * u if k.endswith('weight') else 0.1 * u
        else: v = u * math.sqrt(3 / (t.numel() / t.shape[0]))
        t.copy_(v)
