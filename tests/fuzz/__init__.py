"""A protocol fuzzer: hostile bytes for any broker, and proof that it does not mind.

    requests      valid requests of every API and version a broker serves
    batches       record batches that lie, and bombs
    mutation      how a valid frame is made wrong
    inputs        which of these comes next
    driver        sends inputs and judges each answer
    crowd         connections that say nothing, or one byte at a time
    canary        in a process of its own: an ordinary client that measures its round trips
    report        what was measured, and whether it is good enough
    bulk          a command of its own: valid requests as large as a broker allows

Before the log-in, on listeners with TLS and SASL, with brokers of their own:

    attacks       what somebody sends who wants in
    before_login  a command: sends it, and proves that nobody got in and nothing changed
    half_open     a command: thousands of half-open handshakes beside a good client
    slow_readers  a command: readers over TLS that never read

`python -m tests.fuzz --bootstrap HOST:PORT --pid PID --inputs 200000` runs it; a seed repeats
the same inputs. `test_fuzz.py` is a short run against a broker of its own.
"""

import benchmarks  # noqa: F401 - says what to install, if packages of the extra `dev` are missing
