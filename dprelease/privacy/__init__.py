"""What is promised? Units, budgets, events, and the accountants that turn events into a loss.

Floor 1: pure. Nothing here reads a file, a clock or a random number.

>>> from fractions import Fraction
>>> from dprelease.privacy.accountants import ACCOUNTANTS
>>> from dprelease.privacy.event import DiscreteLaplace, Sensitivity
>>> count = DiscreteLaplace(scale=Fraction(2), sensitivity=Sensitivity.of_one_cell(1))
>>> ACCOUNTANTS["basic"].epsilon(count, Fraction(0))
Fraction(1, 2)
"""
