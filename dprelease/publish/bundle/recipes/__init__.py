"""How every published number is made of the noisy measurements, as formulas."""
