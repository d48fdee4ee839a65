"""Pipelines as users run them: `odradek pipeline run FILE.py|FILE.toml`.

`spec` reads the declarative form, `building` makes queries of it, `loading` reads either form,
`running` keeps queries alive, and `state` stores what other processes see of a pipeline. `spec`,
`state`, `backoff` and `progress_lines` do not import pyspark.
"""
