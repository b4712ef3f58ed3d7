"""How likely is a loss above epsilon, when many draws are added up? Privacy loss distributions without a grid.

``laws`` knows the loss of one draw by its moment generating function, ``total`` adds draws up, ``inversion`` turns
the sum into delta(epsilon), rounded up, by one tilted contour integral.
"""
