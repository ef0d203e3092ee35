"""Makes the small checkpoints that the tests of the .pth reader use: the same state in PyTorch's two containers.

usage: python tiny_checkpoints.py FOLDER
"""
import sys
from pathlib import Path

import torch

folder = Path(sys.argv[1])
base = torch.arange(24, dtype=torch.float32).view(4, 6)
state = {
    "module.a.weight": base.view(2, 2, 6),
    "module.b.weight": base.t()[1:4],  # a strided, offset view of the same storage
    "module.c.half": torch.tensor([0.5, -2.0], dtype=torch.float16),
    "module.d.double": torch.tensor([[1e-3]], dtype=torch.float64),
    "module.bn.num_batches_tracked": torch.tensor(7),
}
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=0.1, momentum=0.9)
checkpoint = {"epoch": 3, "state_dict": state, "optimizer": optimizer.state_dict()}
torch.save(checkpoint, folder / "tiny_zip.pth")
torch.save(checkpoint, folder / "tiny_legacy.pth", _use_new_zipfile_serialization=False)
