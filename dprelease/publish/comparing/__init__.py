"""Which further columns compare published numbers with a total, another group, or an earlier period's bundle?"""
