"""Makes clients obey their quotas (`security.quotas`): what they use is counted with each request,
and a client that has used too much is told so and is not read from for a while.

While no quota is set, no request passes through this package.
"""
