"""How is a release found? What catalogues and search engines are told of it, and the feed of new ones."""
