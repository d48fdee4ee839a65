-- Aggregates over a stream, plain and in windows.
CREATE STREAM s (id INT KEY, item STRING, n BIGINT) WITH (kafka_topic='s', value_format='JSON', partitions=1);
CREATE TABLE plain AS
  SELECT item, COUNT(*) AS c, SUM(n) AS total, AVG(n) AS mean, MIN(n) AS low, MAX(n) AS high,
         COLLECT_LIST(n) AS l, COLLECT_SET(n) AS st, LATEST_BY_OFFSET(n) AS latest,
         EARLIEST_BY_OFFSET(n, 2) AS first, TOPK(n, 2) AS top, COUNT_DISTINCT(n) AS d
  FROM s GROUP BY item;
CREATE TABLE big AS SELECT item, COUNT(*) AS c FROM s GROUP BY item HAVING COUNT(*) = 2;
CREATE TABLE minutes AS
  SELECT item, COUNT(*) AS c, WINDOWSTART AS begin FROM s
  WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS) GROUP BY item;
CREATE TABLE final AS
  SELECT item, COUNT(*) AS c FROM s
  WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS) GROUP BY item EMIT FINAL;
CREATE TABLE hops AS
  SELECT item, COUNT(*) AS c FROM s
  WINDOW HOPPING (SIZE 1 MINUTE, ADVANCE BY 30 SECONDS) GROUP BY item;
CREATE TABLE sessions AS
  SELECT item, COUNT(*) AS c FROM s WINDOW SESSION (10 SECONDS) GROUP BY item;

INSERT INTO s (rowtime, id, item, n) VALUES (1000, 1, 'tea', 5);
INSERT INTO s (rowtime, id, item, n) VALUES (9000, 2, 'tea', 7);
INSERT INTO s (rowtime, id, item, n) VALUES (61000, 3, 'tea', 5);
INSERT INTO s (rowtime, id, item, n) VALUES (2000, 4, 'tea', 9); -- late for `minutes`
INSERT INTO s (rowtime, id, item, n) VALUES (62000, 5, null, 9); -- in no group

ASSERT VALUES plain (item, c, total, mean, low, high, l, st, latest, first, top, d, rowtime)
  VALUES ('tea', 1, 5, 5.0, 5, 5, ARRAY[5], ARRAY[5], 5, ARRAY[5], ARRAY[5], 1, 1000);
ASSERT VALUES plain (item, c, total, mean, low, high, l, st, latest, first, top, d)
  VALUES ('tea', 2, 12, 6.0, 5, 7, ARRAY[5, 7], ARRAY[5, 7], 7, ARRAY[5, 7], ARRAY[7, 5], 2);
ASSERT VALUES plain (item, c, st, top) VALUES ('tea', 3, ARRAY[5, 7], ARRAY[7, 5]);
ASSERT VALUES plain (item, c, latest, rowtime) VALUES ('tea', 4, 9, 61000);

-- A row that HAVING lets pass and then no longer does is deleted; nothing else is.
ASSERT VALUES big (item, c) VALUES ('tea', 2);
ASSERT NULL VALUES big (item) KEY ('tea');

ASSERT VALUES minutes (item, c, begin, windowstart, windowend) VALUES ('tea', 1, 0, 0, 60000);
ASSERT VALUES minutes (item, c, begin) VALUES ('tea', 2, 0);
ASSERT VALUES minutes (item, c, begin) VALUES ('tea', 1, 60000);
ASSERT VALUES final (item, c, windowstart) VALUES ('tea', 2, 0);
ASSERT VALUES hops (item, c, windowstart) VALUES ('tea', 1, 0);
ASSERT VALUES hops (item, c, windowstart) VALUES ('tea', 2, 0);
ASSERT VALUES hops (item, c, windowstart) VALUES ('tea', 1, 30000);
ASSERT VALUES hops (item, c, windowstart) VALUES ('tea', 1, 60000);

-- The session of 1 s is extended to 9 s: the old one is deleted first.
ASSERT VALUES sessions (item, c, windowstart, windowend) VALUES ('tea', 1, 1000, 1000);
ASSERT NULL VALUES sessions (item) KEY ('tea');
ASSERT VALUES sessions (item, c, windowstart, windowend) VALUES ('tea', 2, 1000, 9000);
ASSERT VALUES sessions (item, c, windowstart, windowend) VALUES ('tea', 1, 61000, 61000);
-- So is one that stays as long as it is, as in Kafka Streams.
ASSERT NULL VALUES sessions (item) KEY ('tea');
ASSERT VALUES sessions (item, c, windowstart, windowend) VALUES ('tea', 3, 1000, 9000);
