"""What does one draw cost, exactly? Delta as a function of epsilon for each kind of noise, and back.

`single` is the door: any event in, delta or epsilon out. Behind it one file per theorem.

>>> from fractions import Fraction
>>> from dprelease.privacy.curves import single
>>> from dprelease.privacy.event import Laplace, Sensitivity
>>> noise = Laplace(scale=Fraction(2), sensitivity=Sensitivity.of_one_cell(1))
>>> single.epsilon(noise, Fraction(0))
Fraction(1, 2)
>>> float(single.delta(noise, Fraction(1, 4)))  # 1 - exp(-1/8)
0.1175030974154046
"""
