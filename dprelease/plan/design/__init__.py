"""Which draws are worth making, and how accurate they are: mathematics without any data."""
