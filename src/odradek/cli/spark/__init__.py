"""Commands that start Spark."""
