"""Pipelines as users run them: `odradek pipeline run FILE.py|FILE.toml`.

`spec` reads the declarative form, `building` makes queries of it, `loading` does either form,
`running` keeps queries alive, `state` is what other processes see of it, `charts` draws. `spec`,
`state`, `backoff`, `progress_lines` and `charts` do not import pyspark.
"""
