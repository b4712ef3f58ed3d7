"""Further tables, made of published ones by SQL after the noise."""
