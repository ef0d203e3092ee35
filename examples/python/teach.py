"""Teaches a class from one photo and finds it in another.

    python examples/python/teach.py PHOTO MASK OTHER
"""

import sys

photo, mask, other = sys.argv[1:4]

import protoseg

model = protoseg.Model()
pack = model.register("duck", [(photo, mask)])
print(pack.report)
prediction = model.predict(other, pack)
prediction.save("overlay.png", "overlay")
