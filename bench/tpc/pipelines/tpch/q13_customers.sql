-- Orders of each customer, without special ones.
SELECT c.c_custkey, count(o.o_orderkey) AS c_count
FROM customer AS c
LEFT JOIN orders AS o ON c.c_custkey = o.o_custkey AND o.o_comment NOT LIKE '%special%requests%'
GROUP BY c.c_custkey
