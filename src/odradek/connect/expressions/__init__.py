"""Expressions on records, for transforms that are configured and not programmed.

tokens       text to tokens
syntax       the parts of an expression
parsing      tokens to these parts, in the notation of SQL or of Groovy
functions    the functions that expressions may call
compiling    parts to functions of Python, with the schemas of their results

An expression is never run as a program of Python or of another language: it is parsed into the
parts that `syntax` names, and what they can do is here. It has no loops and sees nothing but its
record. Only `regexp_matches` can take long, with a pattern that is made to.
"""
