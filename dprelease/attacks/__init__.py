"""Why is noise needed? The attacks of the founding papers, carried out on made-up data, and what stops them.

Floor 8: uses releases as the command does, in projects that are thrown away. Its people, and the errors of the
careless publishers that it attacks, come from seeded generators; nothing below may import it, so that none of that is
ever taken for noise (docs/decisions/0082-demonstrations.md).

>>> sorted(ATTACKS)
['averaging', 'differencing', 'linkage', 'reconstruction']
"""

from __future__ import annotations

from collections.abc import Callable

from dprelease.attacks.averaging import demonstrate_averaging
from dprelease.attacks.base import Demonstration
from dprelease.attacks.differencing import demonstrate_differencing
from dprelease.attacks.linkage import demonstrate_linkage
from dprelease.attacks.reconstruction import demonstrate_reconstruction

__all__ = ["ATTACKS"]

# Seed of the made-up people to what came out. Noise of a release has no seed, so its numbers differ each time.
ATTACKS: dict[str, Callable[[int], Demonstration]] = {
    "reconstruction": demonstrate_reconstruction,
    "averaging": demonstrate_averaging,
    "differencing": demonstrate_differencing,
    "linkage": demonstrate_linkage,
}
