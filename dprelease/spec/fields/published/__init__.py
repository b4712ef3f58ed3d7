"""What a spec says of how its numbers are named, compared, judged and shown, and of the office that publishes them."""
