"""Text as Java writes and reads it, for what has to give the same bytes as programs in Java.

    numbers    floating-point numbers
    patterns   regular expressions

Connectors and SQL use it.
"""
