-- Parts that are an important share of that stock. Their sum is a table of its own, as a subquery of all rows would
-- have to be made again whole.
SELECT v.ps_partkey, v.value
FROM q11_values AS v
JOIN q11_total AS t ON v.value > t.total * ${param:share}
ORDER BY value DESC
