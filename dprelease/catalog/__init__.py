"""What exists? Tables, columns, key sets and references, as declared and never as measured.

Floor 2: pure. A catalog holds public metadata only, so a plan made from it reads no data.

>>> from dprelease.catalog.table import Column
>>> Column(name="sex", type="integer", keys=(1, 2)).cells
2
"""
