"""SQL in the console: what a text is made of, the server's answers, and pictures of plans."""
