"""Row-wise expressions: a closed language of total functions."""
