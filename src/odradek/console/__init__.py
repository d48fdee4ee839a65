"""The web console: pages about clusters, and what a user may change in them.

    settings     console.properties: clusters, masks, read-only mode
    service      the service: which page is at which path, and what runs beside the pages
    sessions     who uses which browser: log-ins kept on the server, tokens against forged requests
    clusters     the clusters of one console, each with its client pool, registry and watchers
    watching     figures of a cluster, sampled again and again, in a ring buffer for the charts
    rendering    templates, headers of every page, words and numbers as pages show them
    asking       one request: who asks, of which cluster, with which form
    rights       who may use what does not know the console's users (docs/decisions/0125)
    http_asking  answers of a service that go on, http_json whole ones
    pages/       one module for each subject: topics, messages, groups, balance, SQL, ...
    records/     reading, decoding, searching, copying and masking of records, Parquet
    sql/         texts and answers of a SQL server, pictures of plans
    openid/      log-ins at an OpenID provider
    templates/   HTML, by Jinja2, which escapes every value
    static/      a style sheet and small scripts of ours; htmx and uPlot as they are published

Every page is made by the server and works without JavaScript but for charts and live parts. The
console has no log-in of its own: it asks the brokers as the user of the browser
(docs/decisions/0064), so the brokers decide what a page shows and what a form may change. It
reaches brokers by the protocol alone and works with any Kafka; what only Odradek has is left out of
the pages of other clusters, with a word about it. It needs the extra `console`.
"""

from importlib.util import find_spec

from odradek.web import missing as web_missing
from odradek.world.installing import install_line

_NEEDED = ("jinja2", "cbor2")


def missing() -> str | None:
    """Returns what to do if the packages of the extra are not installed, or None."""
    for name in _NEEDED:
        if find_spec(name) is None:
            return f"{name} is not installed: {install_line('console')}"
    return web_missing()
