SELECT 100 * coalesce(sum(paid) FILTER (starts_with(p_type, 'PROMO')), 0) / sum(paid) AS promo_revenue
FROM lineitem, part WHERE l_partkey = p_partkey AND date_trunc('month', l_shipdate) = '1995-09-01'
