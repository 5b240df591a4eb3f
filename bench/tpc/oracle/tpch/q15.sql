WITH revenue AS (
  SELECT l_suppkey, sum(paid) AS total_revenue FROM lineitem
  WHERE date_trunc('quarter', l_shipdate) = '1996-01-01' GROUP BY 1)
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
WHERE s_suppkey = l_suppkey AND total_revenue = (SELECT max(total_revenue) FROM revenue)
