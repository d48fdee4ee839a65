-- Bounds of windows within expressions, and lambdas over aggregates.
CREATE STREAM s (id INT KEY, x STRING, n BIGINT) WITH (kafka_topic='s', value_format='JSON', partitions=1);
CREATE TABLE shown AS
  SELECT x, TIMESTAMPTOSTRING(WINDOWSTART, 'HH:mm:ss') AS begins, WINDOWEND - WINDOWSTART AS width,
         AS_VALUE(WINDOWEND) AS ends, COUNT(*) AS c
  FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY x;
CREATE TABLE lambdas AS
  SELECT x, TRANSFORM(COLLECT_LIST(n), e => e * 2 + LEN(x)) AS doubled,
         REDUCE(COLLECT_LIST(n), 0, (total, e) => total + e) AS total,
         FILTER(HISTOGRAM(x), (k, v) => v > 1) AS often
  FROM s GROUP BY x;
CREATE TABLE by_lambda WITH (key_format='JSON') AS
  SELECT TRANSFORM(ARRAY[n], e => e + 1) AS k, COUNT(*) AS c FROM s
  GROUP BY TRANSFORM(ARRAY[n], e => e + 1);
-- An aggregate of nothing is that of ROWTIME.
CREATE TABLE times AS SELECT x, AVG(*) AS mean, MAX() AS newest, COUNT() AS c FROM s GROUP BY x;
-- The bounds of a windowed source are columns as any other.
CREATE TABLE by_window AS SELECT WINDOWSTART AS w, COUNT(*) AS c FROM shown GROUP BY WINDOWSTART;

INSERT INTO s (rowtime, id, x, n) VALUES (12000, 1, 'a', 5);
INSERT INTO s (rowtime, id, x, n) VALUES (13000, 2, 'a', 6);

ASSERT VALUES shown (x, begins, width, ends, c) VALUES ('a', '00:00:10', 10000, 20000, 1);
ASSERT VALUES lambdas (x, doubled, total) VALUES ('a', ARRAY[11], 5);
ASSERT VALUES lambdas (x, doubled, total, often) VALUES ('a', ARRAY[11, 13], 11, MAP('a' := 2));
ASSERT VALUES by_lambda (k, c) VALUES (ARRAY[6], 1);
ASSERT VALUES times (x, mean, newest, c) VALUES ('a', 12000.0, 12000, 1);
ASSERT VALUES times (x, mean, newest, c) VALUES ('a', 12500.0, 13000, 2);
ASSERT VALUES by_window (w, c) VALUES (10000, 1);
