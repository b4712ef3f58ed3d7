"""How are tables made of draws that are combinations of their cells: sums along a column, and series of such draws?"""
