SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM part, supplier, partsupp, nation, region
WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND ends_with(p_type, 'BRASS')
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
  AND ps_supplycost = (
    SELECT min(o.ps_supplycost) FROM partsupp o, supplier x, nation y, region z
    WHERE o.ps_partkey = p_partkey AND x.s_suppkey = o.ps_suppkey AND x.s_nationkey = y.n_nationkey
      AND y.n_regionkey = z.r_regionkey AND z.r_name = 'EUROPE')
