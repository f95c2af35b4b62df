-- When do several hosts send data to one at a time, within 100 us?
SELECT file, dst, epoch_ns(time) // 100000 AS slot,
       count(DISTINCT src) AS senders, count(DISTINCT flow_id) AS flows, count(*) AS packets,
       sum(wire_len)::BIGINT AS wire_bytes, count(*) FILTER (ecn = 'CE') AS marked
FROM packets
WHERE payload_len > 0
GROUP BY ALL
HAVING senders > 1
ORDER BY senders DESC, wire_bytes DESC, file, dst, slot
LIMIT 100;
