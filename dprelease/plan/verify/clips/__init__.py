"""Which clips did noise choose, and is every sum clipped where its own choice says?"""
