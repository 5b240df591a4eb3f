-- The suppliers with the highest of it, which is a table of its own.
SELECT s.s_suppkey, s.s_name, s.s_address, s.s_phone, r.total_revenue
FROM q15_revenue AS r
JOIN q15_best AS b ON r.total_revenue = b.best
JOIN supplier AS s ON r.supplier_no = s.s_suppkey
ORDER BY s_suppkey
