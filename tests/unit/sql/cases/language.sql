-- Keys after joins, aggregates of constants, wider types, and rules of replacement.

CREATE STREAM s (id INT KEY, x STRING, n INT) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM r (id INT KEY, y STRING) WITH (kafka_topic='r', value_format='JSON');
CREATE TABLE t (id INT PRIMARY KEY, v STRING) WITH (kafka_topic='t', value_format='JSON');
CREATE TABLE u (id INT PRIMARY KEY, w STRING) WITH (kafka_topic='u', value_format='DELIMITED', key_format='JSON');
CREATE TABLE z (id INT PRIMARY KEY, q STRING) WITH (kafka_topic='z', value_format='JSON');

-- Either side's column may be the key.
CREATE STREAM by_right AS SELECT r.id AS k, x, y FROM s JOIN r WITHIN 1 HOUR ON s.id = r.id;
CREATE STREAM by_left AS SELECT s.id AS k, r.id AS other, y FROM s JOIN r WITHIN 1 HOUR ON s.id = r.id;
ASSERT STREAM by_right (k INT KEY, x STRING, y STRING);
ASSERT STREAM by_left (k INT KEY, other INT, y STRING);
INSERT INTO s (rowtime, id, x, n) VALUES (1, 7, 'a', 5);
INSERT INTO r (rowtime, id, y) VALUES (2, 7, 'b');
ASSERT VALUES by_right (k, x, y) VALUES (7, 'a', 'b');
ASSERT VALUES by_left (k, other, y) VALUES (7, 7, 'b');

-- A third table is joined by a column that is equal to the key, and not by a foreign key.
CREATE TABLE three AS SELECT z.id AS k, v, w, q FROM t JOIN u ON t.id = u.id JOIN z ON u.id = z.id;
INSERT INTO t VALUES (1, 'v');
INSERT INTO u VALUES (1, 'w');
INSERT INTO z VALUES (1, 'q');
ASSERT VALUES three (k, v, w, q) VALUES (1, 'v', 'w', 'q');

-- Groups of a constant.
CREATE TABLE everything AS SELECT 'all' AS k, COUNT(*) AS c FROM s GROUP BY 'all';
ASSERT VALUES everything (k, c) VALUES ('all', 1);

-- Numbers become wider when they are inserted.
CREATE STREAM wide (id BIGINT KEY, n DOUBLE) WITH (kafka_topic='wide', value_format='JSON');
INSERT INTO wide SELECT id, n FROM s;
ASSERT VALUES wide (id, n) VALUES (7, 5.0);

-- Columns may be added at the end.
CREATE OR REPLACE STREAM r (id INT KEY, y STRING, more INT) WITH (kafka_topic='r', value_format='JSON');

-- A stream of keys alone.
CREATE STREAM keys (id INT KEY) WITH (kafka_topic='keys', value_format='JSON');
INSERT INTO keys VALUES (1);
CREATE STREAM keys2 AS SELECT id, AS_VALUE(id) AS copy FROM keys;
ASSERT VALUES keys2 (id, copy) VALUES (1, 1);
