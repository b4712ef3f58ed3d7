"""From stored answers to a bundle in the folder of releases."""
