"""What the draws of a series over periods cost together, and how far its sums err, by the matrix written out."""
