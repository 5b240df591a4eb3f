-- How many suppliers without complaints can deliver parts of some kinds.
SELECT p.p_brand, p.p_type, p.p_size, count(DISTINCT ps.ps_suppkey) AS supplier_cnt
FROM partsupp AS ps
JOIN part AS p ON ps.ps_partkey = p.p_partkey
LEFT ANTI JOIN supplier AS s ON ps.ps_suppkey = s.s_suppkey AND s.s_comment LIKE '%Customer%Complaints%'
WHERE p.p_brand <> 'Brand#45' AND p.p_type NOT LIKE 'MEDIUM POLISHED%'
  AND p.p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
GROUP BY p.p_brand, p.p_type, p.p_size
ORDER BY supplier_cnt DESC, p_brand, p_type, p_size
