# %% [markdown]
# # Training a small network and evaluating it
#
# `python examples/python/train_and_evaluate.py` trains on the procedural scenes, with a callback for every step, and
# scores the result on classes that it has never seen. With `--quick` only a few steps are made.

# %%
import sys
from typing import Any

import protoseg

quick = "--quick" in sys.argv

# %% Recipes come with the package. Single values can be changed by name.
print("recipes:", ", ".join(protoseg.recipes()))
settings: dict[str, Any] = {"training.epochs": 1, "training.crop": 97} if quick else {}

# %% Training. Ctrl-C saves the run and stops; `resume=True` goes on.
losses: list[float] = []


def follow(event: dict[str, Any]) -> bool:
    if event["event"] == "step":
        losses.append(event["loss"])
        if event["step"] % 10 == 0:
            print(f"step {event['step']}: loss {sum(losses[-10:]) / 10:.2f}")
    return not (quick and len(losses) >= 20)


result = protoseg.train("runs/scenes", recipe="scenes-small", settings=settings, callback=follow, force=True)
print(result)

# %% A run that was stopped has no model yet. That of the demo stands in for it.
model = protoseg.Model.load(result.best) if result.best is not None else protoseg.Model.demo()
print(model)

# %% The novel classes of the fold are taught from one and from five masks, then all images count.
scenes = protoseg.Dataset("scenes")
evaluation = model.evaluate(scenes, shots=[1, 5], limit=5 if quick else None)
print(evaluation)
