"""The accounting on a few pages, to be signed, filed and read without a computer.

Blocks of plain text become one PDF, by a template that takes every word from a value and none as markup.

>>> from dprelease.publish.certificate.blocks import BlockText
>>> BlockText("#eval(1) is three words of a title").as_data()
{'kind': 'words', 'text': '#eval(1) is three words of a title', 'look': 'plain'}
"""
