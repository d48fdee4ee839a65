"""What the command-line tools share: error messages, output, and the admin client."""
