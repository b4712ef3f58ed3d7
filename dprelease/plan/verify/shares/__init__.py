"""Are the two numbers that a share is told by a part and a rest: of different rows, and together the whole?"""
