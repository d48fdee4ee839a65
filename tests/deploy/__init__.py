"""The files in `deploy/`: what they name exists, and what belongs together agrees.

Some checks need tools that are not always there, and are skipped without them, also in CI:
`systemd-analyze`, `systemd-sysusers` and `helm`. No test builds the image or starts it, because
that needs a container engine; docs/deployment.md says what was run by hand.
"""
