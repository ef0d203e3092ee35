# %% [markdown]
# # A class from a few masks, looked at from all sides
#
# Run this file cell by cell in an editor that knows `# %%`, or as a whole: `python examples/python/explore.py`. It uses
# the procedural scenes that are in the package, so it needs no data.

# %%
import sys

import numpy as np
import protoseg

quick = "--quick" in sys.argv

# %% The data: images with labels, a few of which teach a new class.
scenes = protoseg.Dataset("scenes")
print(scenes)
name = scenes.folds[0][0]
number = next(number for number, other in scenes.classes.items() if other == name)
samples = (scenes[index] for index in scenes.split("train"))
teachers = [sample for _, sample in zip(range(200), samples) if (sample.labels == number).mean() > 0.03][:3]

# %% Teaching. The report says how good the supports are: each is predicted from the others.
model = protoseg.Model.demo()
print(model, "knows", ", ".join(model.classes))
pack = model.register(
    name, [protoseg.Support(sample.image, sample.labels == number, name=sample.name) for sample in teachers]
)
print(pack.report)

# %% One photo. In a notebook, `prediction` alone shows an overlay.
sample = next(scenes[index] for index in scenes.split("val") if (scenes[index].labels == number).mean() > 0.03)
prediction = model.predict(sample.image, pack)
print(prediction)
found, truth = prediction.mask(name), sample.labels == number
print(f"IoU of {name}: {(found & truth).sum() / (found | truth).sum():.2f}")

# %% How sure it is, and what is left if it may abstain.
print(f"mean confidence {prediction.confidence.mean():.2f}")
careful = prediction.abstain_below(0.7)
print(f"{careful.abstained / careful.labels.size:.0%} of the pixels get no label")

# %% Many photos, several at a time. Anything that gives images will do; a folder, too.
count = 4 if quick else 40
images = [scenes[index].image for index in scenes.split("val")[:count]]
pixels = np.zeros(len(prediction.classes), dtype=np.int64)
for each in model.predict_many(images, pack):
    pixels += np.bincount(each.labels.ravel(), minlength=len(pixels))
for row in np.argsort(-pixels)[:5]:
    print(f"{prediction.classes[row]:>12} {pixels[row] / pixels.sum():6.1%}")

# %% For others: COCO, and a file of class ids.
document = prediction.to_coco("scene.png")
print(len(document["annotations"]), "regions in", document["images"][0]["file_name"])
prediction.save("scene_labels.png")
pack.save("scene.pack")
