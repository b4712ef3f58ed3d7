"""Which matrix is a line that goes on behind mirrors, and how much do sums along it err?"""
