"""The pages for users, run as scripts: README.md and docs/.

`markdown` finds the blocks of a page, `transcript` splits a block into commands and what they
print, `expected_output` compares, `terminal` runs commands in a directory and on ports of their
own, and `page` puts them together. `python -m tests.guides PAGE` shows what the commands of a page
print now. CONTRIBUTING.md, "How to write a page", describes the notation.
"""
