-- Joins of every kind.
CREATE STREAM l (id INT KEY, a STRING) WITH (kafka_topic='l', value_format='JSON', partitions=1);
CREATE STREAM r (id INT KEY, b STRING) WITH (kafka_topic='r', value_format='JSON', partitions=1);
CREATE TABLE t (id INT PRIMARY KEY, v STRING, f STRING) WITH (kafka_topic='t', value_format='JSON', partitions=1);
CREATE TABLE u (k STRING PRIMARY KEY, w INT) WITH (kafka_topic='u', value_format='JSON', partitions=1);

CREATE STREAM near AS SELECT l.id AS id, a, b FROM l JOIN r WITHIN 10 SECONDS ON l.id = r.id;
CREATE STREAM graced AS
  SELECT l.id AS id, a, b FROM l LEFT JOIN r WITHIN 10 SECONDS GRACE PERIOD 0 SECONDS ON l.id = r.id;
CREATE STREAM either AS
  SELECT ROWKEY AS id, a, b FROM l FULL OUTER JOIN r WITHIN 10 SECONDS GRACE PERIOD 0 SECONDS
  ON l.id = r.id;
CREATE STREAM looked AS SELECT l.id AS id, a, v FROM l LEFT JOIN t ON l.id = t.id;
CREATE STREAM three AS
  SELECT l.id AS id, a, b, v FROM l JOIN r WITHIN 10 SECONDS ON l.id = r.id JOIN t ON l.id = t.id;
CREATE TABLE both AS SELECT t.id, v, w FROM t JOIN u ON t.f = u.k;
CREATE TABLE maybe AS SELECT t.id, v, w FROM t LEFT JOIN u ON t.f = u.k;
CREATE TABLE self AS SELECT x.id AS id, x.v AS one, y.v AS two FROM t x JOIN t y ON x.id = y.id;
CREATE STREAM everything AS SELECT * FROM l JOIN r WITHIN 10 SECONDS ON l.id = r.id;

INSERT INTO t (rowtime, id, v, f) VALUES (0, 1, 'one', 'k');
INSERT INTO u (rowtime, k, w) VALUES (5, 'k', 7);
INSERT INTO l (rowtime, id, a) VALUES (1000, 1, 'a1');
INSERT INTO r (rowtime, id, b) VALUES (2000, 1, 'b1');
INSERT INTO l (rowtime, id, a) VALUES (3000, 2, 'a2');
INSERT INTO r (rowtime, id, b) VALUES (4000, 3, 'b3');
INSERT INTO l (rowtime, id, a) VALUES (90000, 9, 'a9');

ASSERT VALUES near (id, a, b, rowtime) VALUES (1, 'a1', 'b1', 2000);
ASSERT VALUES graced (id, a, b) VALUES (1, 'a1', 'b1');
ASSERT VALUES graced (id, a, b, rowtime) VALUES (2, 'a2', null, 3000);
ASSERT VALUES either (id, a, b) VALUES (1, 'a1', 'b1');
ASSERT VALUES either (id, a, b, rowtime) VALUES (2, 'a2', null, 3000);
ASSERT VALUES either (id, a, b, rowtime) VALUES (3, null, 'b3', 4000);
ASSERT VALUES looked (id, a, v) VALUES (1, 'a1', 'one');
ASSERT VALUES looked (id, a, v) VALUES (2, 'a2', null);
ASSERT VALUES three (id, a, b, v) VALUES (1, 'a1', 'b1', 'one');
ASSERT VALUES both (id, v, w, rowtime) VALUES (1, 'one', 7, 5);
ASSERT VALUES maybe (id, v, w) VALUES (1, 'one', null);
ASSERT VALUES maybe (id, v, w) VALUES (1, 'one', 7);
ASSERT VALUES self (id, one, two) VALUES (1, 'one', 'one');
ASSERT STREAM everything (l_id INT KEY, l_a STRING, r_id INT, r_b STRING);
