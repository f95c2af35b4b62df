-- Who sends most, to whom, and how fast between its first and its last packet?
SELECT file, src, dst, count(DISTINCT flow_id) AS flows, count(*) AS packets,
       sum(wire_len)::BIGINT AS wire_bytes, sum(payload_len)::BIGINT AS payload_bytes,
       round(8e9 * sum(wire_len)
             / nullif(max(epoch_ns(time)) - min(epoch_ns(time)), 0) / 1e6, 1) AS mbit_s
FROM packets
WHERE flow_id IS NOT NULL
GROUP BY ALL
ORDER BY wire_bytes DESC, file, src, dst;
