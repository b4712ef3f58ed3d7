"""What of a spec about tables as they are published cannot be: what happens after the noise, comparisons, and names."""
