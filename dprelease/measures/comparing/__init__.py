"""How are published numbers compared: with a total, an earlier period, another group, by the noise's own laws?"""
