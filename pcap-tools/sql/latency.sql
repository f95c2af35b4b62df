-- How long do operations take on each queue pair, from the first packet to the answer, at the tap?
SELECT m.file, f.dst, f.dest_qp, m.operation, count(*) AS messages,
       round(quantile_cont(m.latency_ns, 0.5) / 1e3, 1) AS p50_us,
       round(quantile_cont(m.latency_ns, 0.99) / 1e3, 1) AS p99_us,
       round(quantile_cont(m.latency_ns, 0.999) / 1e3, 1) AS p999_us,
       round(max(m.latency_ns) / 1e3, 1) AS max_us
FROM messages m
JOIN (SELECT DISTINCT file, flow_id, dst, dest_qp FROM flows) f
  ON f.file = m.file AND f.flow_id = m.flow_id
WHERE m.latency_ns IS NOT NULL
GROUP BY ALL
ORDER BY p99_us DESC, m.file, f.dest_qp, m.operation;
