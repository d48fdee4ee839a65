-- Tables: filters, aggregates with retraction, tombstones.
CREATE TABLE t (id INT PRIMARY KEY, region STRING, n INT) WITH (kafka_topic='t', value_format='JSON', partitions=1);
CREATE TABLE large AS SELECT * FROM t WHERE n > 10;
CREATE TABLE regions AS
  SELECT region, COUNT(*) AS c, SUM(n) AS total, COLLECT_LIST(n) AS l, HISTOGRAM(region) AS h FROM t
  GROUP BY region;
CREATE TABLE copied AS SELECT id, region FROM t;

INSERT INTO t VALUES (1, 'eu', 20);
INSERT INTO t VALUES (2, 'eu', 5);
INSERT INTO t VALUES (1, 'us', 3);

ASSERT VALUES large (id, region, n) VALUES (1, 'eu', 20);
ASSERT NULL VALUES large (id) KEY (1);
ASSERT VALUES regions (region, c, total, l) VALUES ('eu', 1, 20, ARRAY[20]);
ASSERT VALUES regions (region, c, total, l) VALUES ('eu', 2, 25, ARRAY[20, 5]);
ASSERT VALUES regions (region, c, total, l, h) VALUES ('eu', 1, 5, ARRAY[5], MAP('eu' := 1));
ASSERT VALUES regions (region, c, total, l) VALUES ('us', 1, 3, ARRAY[3]);
ASSERT VALUES copied (id, region) VALUES (1, 'eu');
DROP TABLE large DELETE TOPIC;
