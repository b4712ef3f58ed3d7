r"""What did the author write? Strict YAML in, a frozen spec out, and every problem at once with its place.

Floor 4: pure. ``load.load`` reads a spec, ``project`` the two files beside it; ``text.advice`` has what
newcomers are told.

>>> from dprelease.errors import SpecError
>>> from dprelease.spec.load import load
>>> try:
...     load("dprelease: 1\nrelease: {nmae: survey}\n", "spec.yaml")
... except SpecError as error:
...     print(error.problems[-1])
spec.yaml:2:11  DPR-S200  unknown field `nmae` in release
    did you mean `name`?
"""
