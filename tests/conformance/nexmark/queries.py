"""The queries of Nexmark in our SQL: statements of our own for what the benchmark asks.

Each query is some statements, the stream or table that has its result, and the columns of its rows.
Of a table, the rows that there are at the end count. Where the benchmark asks for "the best n", our
language has an aggregate that gives them as an array, and `spread` makes rows of it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

Row = dict[str, Any]

SOURCES: Final = """
CREATE STREAM person (id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING,
    state STRING, date_time TIMESTAMP, extra STRING)
  WITH (kafka_topic='person', value_format='JSON', partitions=1, timestamp='date_time');
CREATE STREAM auction (id BIGINT, item_name STRING, description STRING, initial_bid BIGINT,
    reserve BIGINT, date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT,
    extra STRING)
  WITH (kafka_topic='auction', value_format='JSON', partitions=1, timestamp='date_time');
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
    date_time TIMESTAMP, extra STRING)
  WITH (kafka_topic='bid', value_format='JSON', partitions=1, timestamp='date_time');
"""

_IN_TIME: Final = """
CREATE STREAM {name} AS
  SELECT a.id AS id, {columns}
  FROM auction a JOIN bid b WITHIN 1 DAYS GRACE PERIOD 1 DAYS ON a.id = b.auction
  WHERE b.date_time BETWEEN a.date_time AND a.expires;
"""

_BIDS_BY_RANK: Final = """
    COUNT(*) AS total_bids,
    SUM(CASE WHEN price < 10000 THEN 1 ELSE 0 END) AS rank1_bids,
    SUM(CASE WHEN price >= 10000 AND price < 1000000 THEN 1 ELSE 0 END) AS rank2_bids,
    SUM(CASE WHEN price >= 1000000 THEN 1 ELSE 0 END) AS rank3_bids
"""

_DISTINCT_BY_RANK: Final = ",".join(
    f"""
    COUNT_DISTINCT({column}) AS total_{name},
    COUNT_DISTINCT(CASE WHEN price < 10000 THEN {column} END) AS rank1_{name},
    COUNT_DISTINCT(CASE WHEN price >= 10000 AND price < 1000000 THEN {column} END) AS rank2_{name},
    COUNT_DISTINCT(CASE WHEN price >= 1000000 THEN {column} END) AS rank3_{name}"""
    for column, name in (("bidder", "bidders"), ("auction", "auctions"))
)

_RANKED: Final = tuple(
    f"{rank}_{of}".upper()
    for of in ("bids", "bidders", "auctions")
    for rank in ("total", "rank1", "rank2", "rank3")
)


def as_it_is(row: Row) -> Iterator[Row]:
    yield row


def winners(row: Row) -> Iterator[Row]:
    """The rows of an array of structs, numbered from 1."""
    for number, one in enumerate(row["BEST"] or (), 1):
        named = {name.upper(): value for name, value in one.items()}
        yield {**row, **named, "RANK": number}


@dataclass(frozen=True)
class Query:
    """Statements, the stream or table that has their result, and the columns of its rows."""

    statements: str
    result: str
    columns: tuple[str, ...]
    spread: Callable[[Row], Iterator[Row]] = as_it_is


def _columns(text: str) -> tuple[str, ...]:
    return tuple(text.upper().split())


QUERIES: Final = {
    "q0": Query(
        "CREATE STREAM q0 AS SELECT auction, bidder, price, date_time FROM bid;",
        "Q0", _columns("auction bidder price date_time"),
    ),
    "q1": Query(
        "CREATE STREAM q1 AS SELECT auction, bidder, 0.908 * price AS price, date_time FROM bid;",
        "Q1", _columns("auction bidder price date_time"),
    ),
    "q2": Query(
        """
        CREATE STREAM q2 AS SELECT auction, price FROM bid
          WHERE auction IN (1007, 1020, 2001, 2019, 2087);
        """,
        "Q2", _columns("auction price"),
    ),
    "q3": Query(
        """
        CREATE TABLE persons AS SELECT id, LATEST_BY_OFFSET(name) AS name,
            LATEST_BY_OFFSET(city) AS city, LATEST_BY_OFFSET(state) AS state
          FROM person GROUP BY id;
        CREATE TABLE auctions AS SELECT id, LATEST_BY_OFFSET(seller) AS seller,
            LATEST_BY_OFFSET(category) AS category
          FROM auction GROUP BY id;
        CREATE TABLE q3 AS SELECT a.id AS id, p.name AS name, p.city AS city, p.state AS state
          FROM auctions a JOIN persons p ON a.seller = p.id
          WHERE a.category = 10 AND p.state IN ('or', 'id', 'ca');
        """,
        "Q3", _columns("name city state id"),
    ),
    "q4": Query(
        _IN_TIME.format(name="q4_bids", columns="a.category AS category, b.price AS price")
        + """
        CREATE TABLE q4_final WITH (key_format='JSON') AS SELECT id, category, MAX(price) AS final
          FROM q4_bids GROUP BY id, category;
        CREATE TABLE q4 AS SELECT category, AVG(final) AS average FROM q4_final GROUP BY category;
        """,
        "Q4", _columns("category average"),
    ),
    "q5": Query(
        """
        CREATE TABLE q5_windows WITH (kafka_topic='q5_windows', key_format='JSON') AS
          SELECT auction, COUNT(*) AS num FROM bid
          WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 2 SECONDS) GROUP BY auction;
        CREATE STREAM q5_changes (auction BIGINT KEY, num BIGINT)
          WITH (kafka_topic='q5_windows', key_format='JSON', value_format='JSON',
            window_type='HOPPING', window_size='10 SECONDS');
        CREATE STREAM q5_counts AS SELECT auction, WINDOWSTART AS started, num FROM q5_changes;
        CREATE TABLE q5_most AS SELECT started, MAX(num) AS most FROM q5_counts GROUP BY started;
        CREATE TABLE q5_each WITH (key_format='JSON') AS
          SELECT auction, started, AS_VALUE(auction) AS auction_id,
            AS_VALUE(started) AS slot, MAX(num) AS num
          FROM q5_counts GROUP BY auction, started;
        CREATE TABLE q5 AS SELECT e.auction AS auction, e.started AS started, e.num AS num
          FROM q5_each e JOIN q5_most m ON e.slot = m.started WHERE e.num >= m.most;
        """,
        "Q5", _columns("auction num"),
    ),
    "q6": Query(
        _IN_TIME.format(
            name="q6_bids", columns="a.seller AS seller, a.expires AS expires, b.price AS price"
        )
        + """
        CREATE TABLE q6_final WITH (key_format='JSON') AS
          SELECT id, seller, expires, AS_VALUE(seller) AS of_seller,
            AS_VALUE(expires) AS until, MAX(price) AS final
          FROM q6_bids GROUP BY id, seller, expires;
        CREATE TABLE q6_last AS SELECT of_seller,
            ARRAY_SORT(COLLECT_LIST(CAST(UNIX_TIMESTAMP(until) AS STRING) + ':'
              + CAST(final AS STRING)), 'DESC') AS prices
          FROM q6_final GROUP BY of_seller;
        CREATE TABLE q6 AS SELECT of_seller AS seller,
            REDUCE(SLICE(prices, 1, LEAST(10, ARRAY_LENGTH(prices))), CAST(0 AS DOUBLE),
                (total, one) => total + CAST(SPLIT(one, ':')[2] AS DOUBLE))
              / LEAST(10, ARRAY_LENGTH(prices)) AS average
          FROM q6_last;
        """,
        "Q6", _columns("seller average"),
    ),
    "q7": Query(
        """
        CREATE STREAM q7_bids AS SELECT
            CAST(ROWPARTITION AS STRING) + '-' + CAST(ROWOFFSET AS STRING) AS bid_id,
            auction, price, bidder, date_time,
            UNIX_TIMESTAMP(date_time) / 10000 AS slot
          FROM bid;
        CREATE TABLE q7_most AS SELECT slot, MAX(price) AS most FROM q7_bids GROUP BY slot;
        CREATE TABLE q7_each AS SELECT bid_id, LATEST_BY_OFFSET(auction) AS auction,
            LATEST_BY_OFFSET(price) AS price, LATEST_BY_OFFSET(bidder) AS bidder,
            LATEST_BY_OFFSET(date_time) AS date_time, LATEST_BY_OFFSET(slot) AS slot
          FROM q7_bids GROUP BY bid_id;
        CREATE TABLE q7 AS SELECT e.bid_id AS bid_id, e.auction AS auction, e.price AS price,
            e.bidder AS bidder, e.date_time AS date_time
          FROM q7_each e JOIN q7_most m ON e.slot = m.slot WHERE e.price = m.most;
        """,
        "Q7", _columns("auction price bidder date_time"),
    ),
    "q8": Query(
        """
        CREATE STREAM q8_pairs AS SELECT p.id AS id, p.name AS name,
            UNIX_TIMESTAMP(p.date_time) / 10000 AS slot
          FROM person p JOIN auction a WITHIN 10 SECONDS GRACE PERIOD 1 DAYS ON p.id = a.seller
          WHERE UNIX_TIMESTAMP(p.date_time) / 10000 = UNIX_TIMESTAMP(a.date_time) / 10000;
        CREATE TABLE q8 WITH (key_format='JSON') AS SELECT id, name, slot, COUNT(*) AS pairs,
            FROM_UNIXTIME(slot * 10000) AS started
          FROM q8_pairs GROUP BY id, name, slot;
        """,
        "Q8", _columns("id name started"),
    ),
    "q9": Query(
        _IN_TIME.format(
            name="q9_bids",
            columns="""a.item_name AS item_name, a.description AS description,
                a.initial_bid AS initial_bid, a.reserve AS reserve, a.date_time AS date_time,
                a.expires AS expires, a.seller AS seller, a.category AS category,
                b.auction AS auction, b.bidder AS bidder, b.price AS price,
                b.date_time AS bid_date_time""",
        )
        + """
        CREATE TABLE q9 AS SELECT id, TOPK(price, item_name, description, initial_bid, reserve,
            date_time, expires, seller, category, auction, bidder, bid_date_time, 1) AS best
          FROM q9_bids GROUP BY id;
        """,
        "Q9",
        _columns(
            "id col0 col1 col2 col3 col4 col5 col6 col7 col8 col9 sort_col col10"
        ),
        winners,
    ),
    "q10": Query(
        """
        CREATE STREAM q10 AS SELECT auction, bidder, price, date_time,
            FORMAT_TIMESTAMP(date_time, 'yyyy-MM-dd') AS day,
            FORMAT_TIMESTAMP(date_time, 'hh:mm') AS minute
          FROM bid;
        """,
        "Q10", _columns("auction bidder price date_time day minute"),
    ),
    "q11": Query(
        """
        CREATE TABLE q11 AS SELECT bidder, COUNT(*) AS bids FROM bid
          WINDOW SESSION (10 SECONDS) GROUP BY bidder;
        """,
        "Q11", _columns("bidder bids windowstart windowend"),
    ),
    "q12": Query(
        """
        CREATE STREAM q12_bid (bidder BIGINT) WITH (kafka_topic='bid', value_format='JSON');
        CREATE TABLE q12 AS SELECT bidder, COUNT(*) AS bids FROM q12_bid
          WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY bidder;
        """,
        "Q12", _columns("bidder bids windowstart"),
    ),
    "q13": Query(
        """
        CREATE TABLE side (id BIGINT PRIMARY KEY, text STRING)
          WITH (kafka_topic='side', value_format='JSON', partitions=1);
        CREATE STREAM q13_bid AS SELECT auction % 10 AS side_id, auction, bidder, price FROM bid
          PARTITION BY auction % 10;
        CREATE STREAM q13 AS SELECT b.side_id AS side_id, b.auction AS auction,
            b.bidder AS bidder, b.price AS price, s.text AS text
          FROM q13_bid b JOIN side s ON b.side_id = s.id;
        """,
        "Q13", _columns("auction bidder price text"),
    ),
    "q14": Query(
        """
        CREATE STREAM q14 AS SELECT auction, bidder, 0.908 * price AS price,
            CASE
              WHEN CAST(FORMAT_TIMESTAMP(date_time, 'HH') AS INT) BETWEEN 8 AND 18 THEN 'dayTime'
              WHEN CAST(FORMAT_TIMESTAMP(date_time, 'HH') AS INT) <= 6
                OR CAST(FORMAT_TIMESTAMP(date_time, 'HH') AS INT) >= 20 THEN 'nightTime'
              ELSE 'otherTime'
            END AS kind,
            date_time, LEN(extra) - LEN(REPLACE(extra, 'c', '')) AS c_counts
          FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
        """,
        "Q14", _columns("auction bidder price kind date_time c_counts"),
    ),
    "q15": Query(
        f"""
        CREATE TABLE q15 AS SELECT FORMAT_TIMESTAMP(date_time, 'yyyy-MM-dd') AS day,
            {_BIDS_BY_RANK}, {_DISTINCT_BY_RANK}
          FROM bid GROUP BY FORMAT_TIMESTAMP(date_time, 'yyyy-MM-dd');
        """,
        "Q15", ("DAY", *_RANKED),
    ),
    "q16": Query(
        f"""
        CREATE TABLE q16 WITH (key_format='JSON') AS SELECT channel,
            FORMAT_TIMESTAMP(date_time, 'yyyy-MM-dd') AS day,
            MAX(FORMAT_TIMESTAMP(date_time, 'hh:MM')) AS minute,
            {_BIDS_BY_RANK}, {_DISTINCT_BY_RANK}
          FROM bid GROUP BY channel, FORMAT_TIMESTAMP(date_time, 'yyyy-MM-dd');
        """,
        "Q16", ("CHANNEL", "DAY", "MINUTE", *_RANKED),
    ),
    "q17": Query(
        f"""
        CREATE TABLE q17 WITH (key_format='JSON') AS
          SELECT auction, FORMAT_TIMESTAMP(date_time, 'yyyy-MM-dd') AS day,
            {_BIDS_BY_RANK},
            MIN(price) AS min_price, MAX(price) AS max_price, AVG(price) AS avg_price,
            SUM(price) AS sum_price
          FROM bid GROUP BY auction, FORMAT_TIMESTAMP(date_time, 'yyyy-MM-dd');
        """,
        "Q17", ("AUCTION", "DAY", *_RANKED[:4], "MIN_PRICE", "MAX_PRICE", "AVG_PRICE", "SUM_PRICE"),
    ),
    "q18": Query(
        """
        CREATE TABLE q18 WITH (key_format='JSON') AS
          SELECT bidder, auction, TOPK(UNIX_TIMESTAMP(date_time), price, channel, url,
             date_time, extra, 1) AS best
          FROM bid GROUP BY bidder, auction;
        """,
        "Q18", _columns("auction bidder col0 col1 col2 col3 col4"), winners,
    ),
    "q19": Query(
        """
        CREATE TABLE q19 AS SELECT auction, TOPK(price, bidder, channel, url, date_time, extra, 10)
            AS best
          FROM bid GROUP BY auction;
        """,
        "Q19", _columns("auction col0 sort_col col1 col2 col3 col4 rank"), winners,
    ),
    "q20": Query(
        """
        CREATE STREAM q20 AS SELECT b.auction AS auction, b.bidder AS bidder, b.price AS price,
            b.channel AS channel, b.url AS url, b.date_time AS bid_date_time, b.extra AS bid_extra,
            a.item_name AS item_name, a.description AS description, a.initial_bid AS initial_bid,
            a.reserve AS reserve, a.date_time AS auction_date_time, a.expires AS expires,
            a.seller AS seller, a.category AS category, a.extra AS auction_extra
          FROM bid b JOIN auction a WITHIN 1 DAYS GRACE PERIOD 1 DAYS ON b.auction = a.id
          WHERE a.category = 10;
        """,
        "Q20",
        _columns(
            """auction bidder price channel url bid_date_time bid_extra item_name description
            initial_bid reserve auction_date_time expires seller category auction_extra"""
        ),
    ),
    "q21": Query(
        """
        CREATE STREAM q21 AS SELECT auction, bidder, price, channel,
            CASE
              WHEN LCASE(channel) = 'apple' THEN '0'
              WHEN LCASE(channel) = 'google' THEN '1'
              WHEN LCASE(channel) = 'facebook' THEN '2'
              WHEN LCASE(channel) = 'baidu' THEN '3'
              ELSE REGEXP_EXTRACT('(&|^)channel_id=([^&]*)', url, 2)
            END AS channel_id
          FROM bid
          WHERE REGEXP_EXTRACT('(&|^)channel_id=([^&]*)', url, 2) IS NOT NULL
            OR LCASE(channel) IN ('apple', 'google', 'facebook', 'baidu');
        """,
        "Q21", _columns("auction bidder price channel channel_id"),
    ),
    "q22": Query(
        """
        CREATE STREAM q22 AS SELECT auction, bidder, price, channel,
            SPLIT(url, '/')[4] AS dir1, SPLIT(url, '/')[5] AS dir2, SPLIT(url, '/')[6] AS dir3
          FROM bid;
        """,
        "Q22", _columns("auction bidder price channel dir1 dir2 dir3"),
    ),
}  # fmt: skip
