-- By part, what its lines of small quantities brought: less than a fifth of the usual one, which is a window.
SELECT l_partkey, sum(l_extendedprice) AS price
FROM (
  SELECT l.l_partkey, l.l_quantity, l.l_extendedprice, avg(l.l_quantity) OVER (PARTITION BY l.l_partkey) AS usual
  FROM lineitem AS l
  JOIN part AS p ON l.l_partkey = p.p_partkey
  WHERE p.p_brand = 'Brand#23' AND p.p_container = 'MED BOX'
) AS lines
WHERE l_quantity < 0.2 * usual
GROUP BY l_partkey
