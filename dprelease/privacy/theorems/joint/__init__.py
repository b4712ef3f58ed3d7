"""What one draw over several counts of a cell costs, where more is known of it than its epsilon."""
