-- The cheapest suppliers of a part. The least cost is a window, not a subquery; the first 100 are the reader's to take.
WITH offers AS (
  SELECT s.s_acctbal, s.s_name, n.n_name, p.p_partkey, p.p_mfgr, s.s_address, s.s_phone, s.s_comment,
    ps.ps_supplycost, min(ps.ps_supplycost) OVER (PARTITION BY p.p_partkey) AS least
  FROM partsupp AS ps
  JOIN part AS p ON ps.ps_partkey = p.p_partkey
  JOIN supplier AS s ON ps.ps_suppkey = s.s_suppkey
  JOIN nation AS n ON s.s_nationkey = n.n_nationkey
  JOIN region AS r ON n.n_regionkey = r.r_regionkey
  WHERE p.p_size = 15 AND p.p_type LIKE '%BRASS' AND r.r_name = 'EUROPE'
)
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM offers
WHERE ps_supplycost = least
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey
