"""What an author may write: one frozen value per mapping of a file."""
