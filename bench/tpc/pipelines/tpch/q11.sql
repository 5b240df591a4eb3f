-- Parts that are an important share of that stock. Their sum is a table of its own, as a subquery of all rows would
-- have to be made again whole. The share is 0.0001 by the scale: here that of scale 0.01.
SELECT v.ps_partkey, v.value
FROM q11_values AS v
JOIN q11_total AS t ON v.value > t.total * 0.01
ORDER BY value DESC
