"""What is made of the columns of one row: expressions, derived columns, whole steps of a grid."""
